// What a person's Pi session loads: it starts `pinata pi`, offers the tools that the program
// describes, and passes on what happens. All decisions are made on the other side.
import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
import type { JsonValue } from "@earendil-works/pi-ai";
import { Attachment, messageOf, say } from "./attachment.ts";

const COMMAND = "pinata";
const ACTIONS = ["status", "runs", "watch", "open", "rerun", "gc"];

type DescribedTool = {
  name: string;
  description: string;
  changesState: boolean;
  parameters: Record<string, unknown>;
};

export default function coordinate(pi: ExtensionAPI): void {
  // An agent must not start agents: the program would refuse it anyway.
  if (process.env.PINATA_AGENT === "1") return;
  let current: Attachment | undefined;

  pi.on("session_start", async (_event, ctx) => {
    const attached = new Attachment(pi, ctx);
    current = attached;
    try {
      const welcome = await attached.attach();
      // Pi's objects throw once another session has taken the place of this one.
      if (current !== attached) return;
      for (const tool of welcome.tools as DescribedTool[]) offer(pi, tool, () => current);
    } catch (error) {
      if (current !== attached) return;
      say(ctx, `pinata's tools are missing: ${messageOf(error)}`, "error");
    }
  });

  pi.on("session_shutdown", async (event) => {
    const attached = current;
    current = undefined;
    await attached?.end(event.reason);
  });

  pi.on("model_select", () => current?.tellModel());
  pi.on("thinking_level_select", () => current?.tellModel());
  pi.on("agent_start", () => {
    current?.deliveries.started();
    current?.tellIdle();
  });
  pi.on("message_end", () => current?.deliveries.confirmSaved());
  pi.on("turn_end", () => current?.deliveries.confirmSaved());
  pi.on("agent_settled", (event) => {
    current?.deliveries.settled(event.aborted);
    current?.tellIdle();
  });
  pi.on("session_compact", () => current?.tellIdle());
  pi.on("session_compact_failed", () => current?.tellIdle());

  pi.on("before_agent_start", (event) => {
    if (current?.instructions === undefined) return;
    return { systemPrompt: `${event.systemPrompt}\n\n${current.instructions}` };
  });

  // A session without a person ends with its last answer: what still works is waited for.
  pi.on("agent_before_settle", async (event, ctx) => {
    if (current === undefined || ctx.mode === "tui" || ctx.mode === "rpc") return;
    try {
      await current.hold();
    } catch (error) {
      say(ctx, `pinata: ${messageOf(error)}; more is told when this session is continued`, "error");
    }
    const arrived = current.deliveries.take();
    if (arrived.length === 0) return;
    const entries = arrived.map((each) => ({ type: "custom_message" as const, ...each }));
    return { entries: [...event.entries, ...entries], continue: true };
  });

  pi.registerCommand(COMMAND, {
    description: `runs of this repository: ${ACTIONS.join(", ")}`,
    // What is typed to its end is offered no more: Enter would take the offer and send nothing.
    getArgumentCompletions: (prefix) =>
      ACTIONS.filter((action) => action.startsWith(prefix) && action !== prefix).map((value) => ({
        value,
        label: value,
      })),
    handler: async (text, ctx) => {
      try {
        if (current === undefined) throw new Error("not attached; try /reload");
        const done = await current.request({ type: "command", text });
        say(ctx, (done.answer as { text: string }).text.trimEnd(), "info");
      } catch (error) {
        say(ctx, `pinata: ${messageOf(error)}`, "error");
      }
    },
  });
}

function offer(pi: ExtensionAPI, tool: DescribedTool, attached: () => Attachment | undefined): void {
  pi.registerTool({
    name: tool.name,
    label: tool.name,
    description: tool.description,
    promptSnippet: tool.description.slice(0, tool.description.indexOf(". ") + 1),
    parameters: tool.parameters,
    annotations: { readOnlyHint: !tool.changesState },
    async execute(_call, params, signal, onUpdate) {
      const session = attached();
      if (session === undefined) throw new Error("this session has ended");
      const frame = { type: "call", tool: tool.name, arguments: params };
      const done = await session.request(frame, signal, (text) =>
        onUpdate?.({ content: [{ type: "text", text }], details: {} }),
      );
      const deliveries = typeof done.delivery === "string" ? [done.delivery] : [];
      for (const key of deliveries) session.deliveries.expect(key);
      const answer = done.answer as JsonValue;
      const text = typeof done.text === "string" ? done.text : JSON.stringify(answer);
      const isError = (answer as { ok?: boolean }).ok === false;
      // What a model reads differs from the answer, which stays for programs.
      const details = done.text === undefined ? { deliveries } : { deliveries, answer };
      return { content: [{ type: "text", text }], details, structuredContent: answer, isError };
    },
  });
}
