// What a person's Pi session loads: it starts `pinata pi`, offers the tools that the program
// describes, and passes on what happens. All decisions are made on the other side.
import type { ExtensionAPI, ExtensionContext } from "@earendil-works/pi-coding-agent";
import type { JsonValue } from "@earendil-works/pi-ai";
import { Bridge, type Frame } from "./bridge.ts";
import { Deliveries, type Delivery } from "./deliveries.ts";
import { findProgram } from "./program.ts";

const PROTOCOL = 1;
const PATIENCE_MS = 20_000;
const NAME = "pinata";
const ACTIONS = ["status", "runs", "open", "watch", "rerun", "gc"];

type DescribedTool = {
  name: string;
  description: string;
  changesState: boolean;
  parameters: Record<string, unknown>;
};

class Attachment {
  readonly bridge: Bridge;
  readonly deliveries: Deliveries;
  readonly #ctx: ExtensionContext;
  #isCurrent = true;
  #welcomed: (frame: Frame) => void = () => {};
  #refused: (error: Error) => void = () => {};
  readonly welcome: Promise<Frame>;

  constructor(pi: ExtensionAPI, ctx: ExtensionContext) {
    this.#ctx = ctx;
    this.welcome = new Promise((resolve, reject) => {
      this.#welcomed = resolve;
      this.#refused = reject;
    });
    const session = ctx.sessionManager.getSessionId();
    const command = [findProgram(process.env), "pi", "--session", session] as const;
    this.bridge = new Bridge(command, ctx.cwd, (frame) => this.#hear(frame), (why) => this.#lose(why));
    this.deliveries = new Deliveries(pi, ctx, (delivery) => this.bridge.send({ type: "ack", delivery }));
    this.bridge.send({
      type: "hello",
      v: PROTOCOL,
      role: "session",
      session,
      cwd: ctx.cwd,
      mode: ctx.mode,
      trust: ctx.isProjectTrusted(),
    });
  }

  #hear(frame: Frame): void {
    // Pi's objects throw once another session has taken their place.
    if (!this.#isCurrent) return;
    switch (frame.type) {
      case "welcome":
        this.#welcomed(frame);
        break;
      case "delivery":
        this.deliveries.receive(frame as Frame & Delivery);
        break;
      case "status":
        this.#ctx.ui.setStatus(NAME, typeof frame.text === "string" ? frame.text : undefined);
        break;
      case "widget":
        this.#ctx.ui.setWidget(NAME, Array.isArray(frame.lines) ? frame.lines : undefined);
        break;
      case "displaced":
      case "refused":
        this.#lose(String(frame.reason ?? frame.error));
        break;
    }
  }

  #lose(reason: string): void {
    this.#refused(new Error(reason));
    if (this.#isCurrent) this.#ctx.ui.notify(`pinata: ${reason}`, "error");
  }

  async end(reason: string): Promise<void> {
    this.#isCurrent = false;
    this.deliveries.stop();
    await this.bridge.close(reason);
  }
}

export default function coordinate(pi: ExtensionAPI): void {
  // An agent must not start agents: the program would refuse it anyway.
  if (process.env.PINATA_AGENT === "1") return;
  let current: Attachment | undefined;

  pi.on("session_start", async (_event, ctx) => {
    const attached = new Attachment(pi, ctx);
    current = attached;
    try {
      const welcome = await inTime(attached.welcome);
      for (const tool of welcome.tools as DescribedTool[]) offer(pi, tool, () => current);
      for (const notice of welcome.notices as string[]) ctx.ui.notify(notice, "info");
    } catch (error) {
      ctx.ui.notify(`pinata's tools are missing: ${message(error)}`, "error");
    }
  });

  pi.on("session_shutdown", async (event) => {
    const attached = current;
    current = undefined;
    await attached?.end(event.reason);
  });

  for (const event of ["message_end", "turn_end", "agent_settled"] as const) {
    pi.on(event as "agent_settled", () => current?.deliveries.confirmSaved());
  }

  // A session without a person ends with its last answer: what still works is waited for.
  pi.on("agent_before_settle", async (event, ctx) => {
    if (current === undefined || ctx.mode === "tui" || ctx.mode === "rpc") return;
    await current.bridge.request({ type: "hold" });
    const held = current.deliveries.take();
    if (held === undefined) return;
    return { entries: [...event.entries, { type: "custom_message", ...held }], continue: true };
  });

  pi.registerCommand(NAME, {
    description: `runs of this repository: ${ACTIONS.join(", ")}`,
    getArgumentCompletions: (prefix) =>
      ACTIONS.filter((action) => action.startsWith(prefix)).map((value) => ({ value, label: value })),
    handler: async (given, ctx) => {
      if (current === undefined) return ctx.ui.notify("pinata: not attached; try /reload", "error");
      try {
        const done = await current.bridge.request({ type: "command", text: given });
        ctx.ui.notify(String(done.text), "info");
      } catch (error) {
        ctx.ui.notify(`pinata: ${message(error)}`, "error");
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
      const bridge = attached()?.bridge;
      if (bridge === undefined) throw new Error("this session has ended");
      const frame = { type: "call", tool: tool.name, arguments: params };
      const done = await bridge.request(frame, signal, (text) =>
        onUpdate?.({ content: [{ type: "text", text }], details: {} }),
      );
      const deliveries = typeof done.delivery === "string" ? [done.delivery] : [];
      for (const key of deliveries) attached()?.deliveries.expect(key);
      const answer = done.answer as JsonValue;
      const text = JSON.stringify(answer);
      return { content: [{ type: "text", text }], details: { deliveries }, structuredContent: answer };
    },
  });
}

async function inTime<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const seconds = PATIENCE_MS / 1_000;
    timer = setTimeout(() => reject(new Error(`no answer within ${seconds} s`)), PATIENCE_MS);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

function message(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
