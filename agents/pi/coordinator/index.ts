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
  pi.on("agent_start", () => current?.deliveries.started());
  pi.on("message_end", () => current?.deliveries.confirmSaved());
  pi.on("turn_end", () => current?.deliveries.confirmSaved());
  pi.on("agent_settled", (event) => current?.deliveries.settled(event.aborted));

  // A session without a person ends with its last answer: what still works is waited for.
  pi.on("agent_before_settle", async (event, ctx) => {
    if (current === undefined || ctx.mode === "tui" || ctx.mode === "rpc") return;
    try {
      await current.hold();
    } catch (error) {
      say(ctx, `pinata: ${messageOf(error)}; more is told when this session is continued`, "error");
    }
    const held = current.deliveries.take();
    if (held === undefined) return;
    return { entries: [...event.entries, { type: "custom_message", ...held }], continue: true };
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
      const text = JSON.stringify(answer);
      return { content: [{ type: "text", text }], details: { deliveries }, structuredContent: answer };
    },
  });
}
