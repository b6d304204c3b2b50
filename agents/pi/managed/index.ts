// Loaded inside a managed agent that is a Pi of its own. It carries the herd's messages into the
// conversation and the agent's questions out of it. It knows no rule itself.
import type {
  BoundaryResult,
  BoundaryState,
  ExtensionAPI,
  ExtensionContext,
} from "@earendil-works/pi-coding-agent";

const SPEC = "PINATA_MANAGED";
const ASKING = "pinata:ask";
const MARKER = "__PI_HERDSMAN_AGENT_V4__:";
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const NO_ANSWER = "the engine did not answer";
type Message = { kind: string; text: string; details: Record<string, unknown> };
type Entry = { kind: string; details: Record<string, unknown> };
type Spec = {
  tools: { name: string; description: string; parameters: Record<string, unknown> }[];
  guarded: string[];
  shells: string[];
  shellTimeoutS: number;
};

// What the engine says; each question has its own fields.
type Answer = {
  messages?: Message[];
  entry?: Entry;
  refusal?: string;
  text?: string;
  details?: Record<string, unknown>;
  isError?: boolean;
  endsTurn?: boolean;
};

// One question over Pi's own stream: it keeps its place among the events, and there is no other
// file, port or socket.
async function ask(
  ctx: ExtensionContext,
  question: Record<string, unknown>,
  signal?: AbortSignal,
): Promise<Answer> {
  const options = signal === undefined ? {} : { signal };
  const answer = await ctx.ui.input(ASKING, JSON.stringify(question), options);
  if (answer === undefined) throw new Error(NO_ANSWER);
  return JSON.parse(answer) as Answer;
}

function shown({ kind, text, details }: Message) {
  return { customType: kind, content: text, display: true, details };
}

function readOn(event: BoundaryState, { messages = [] }: Answer): BoundaryResult | undefined {
  if (messages.length === 0) return undefined;
  const entries = messages.map((message) => ({ type: "custom_message" as const, ...shown(message) }));
  return { entries: [...event.entries, ...entries], continue: true };
}

export default function serve(pi: ExtensionAPI): void {
  const spec = JSON.parse(process.env[SPEC] ?? "null") as Spec | null;
  if (spec === null) throw new Error(`${SPEC} is not set: this extension is for pinata's own agents`);
  delete process.env[SPEC]; // nothing that the agent starts needs it

  for (const tool of spec.tools) {
    pi.registerTool({
      ...tool,
      label: tool.name,
      executionMode: "sequential",
      exposure: "model-only",
      async execute(call, params, signal, _onUpdate, ctx) {
        const question = { ask: "tool", call, tool: tool.name, arguments: params };
        const answer = await ask(ctx, question, signal);
        return {
          content: [{ type: "text", text: answer.text ?? "" }],
          details: answer.details ?? {},
          isError: answer.isError === true,
          terminate: answer.endsTurn === true,
        };
      },
    });
  }

  // The last message begins a run, with those before it at its head.
  async function carryIn(id: string, ctx: ExtensionContext): Promise<void> {
    const { messages = [], entry } = await ask(ctx, { ask: "take", id });
    if (entry !== undefined) pi.appendEntry(entry.kind, entry.details);
    for (const [index, message] of messages.entries()) {
      const triggerTurn = index === messages.length - 1;
      pi.sendMessage(shown(message), { triggerTurn, deliverAs: "steer" });
    }
  }

  // Whatever begins like a marker is no text for the model, and an error here must not make it one.
  // The engine sees that nothing came of it.
  pi.on("input", async (event, ctx) => {
    if (!event.text.startsWith(MARKER)) return;
    const id = event.text.slice(MARKER.length);
    try {
      if (ID.test(id)) await carryIn(id, ctx);
    } catch (error) {
      console.error(`a message of the herd was not taken in: ${String(error)}`);
    }
    return { action: "handled" };
  });

  // A handler that throws blocks its call, so an engine that is gone lets nothing through.
  pi.on("tool_call", async (event, ctx) => {
    if (spec.shells.includes(event.toolName)) {
      const input = event.input as { timeout?: unknown };
      input.timeout ??= spec.shellTimeoutS;
      return;
    }
    if (!spec.guarded.includes(event.toolName)) return;
    const question = { ask: "call", tool: event.toolName, arguments: event.input };
    const answer = await ask(ctx, question, ctx.signal);
    if (answer.refusal !== undefined) return { block: true, reason: answer.refusal };
    return;
  });

  pi.on("session_before_compact", async (event, ctx) => {
    const question = { ask: "compact", reason: event.reason };
    const answer = await ask(ctx, question, event.signal).catch(() => ({ refusal: NO_ANSWER }));
    return answer.refusal === undefined ? undefined : { cancel: true };
  });

  // What has come for the agent meanwhile it reads now, all of it at once. Pi's own queue would show
  // it one message each turn.
  pi.on("turn_end", async (event, ctx) => {
    const question = { ask: "turn", outcome: event.outcome };
    const answer = await ask(ctx, question, ctx.signal).catch((): Answer => ({}));
    return readOn(event, answer);
  });

  pi.on("agent_before_settle", async (event, ctx) =>
    readOn(event, await ask(ctx, { ask: "rest", outcome: event.outcome })),
  );

  // In its place before the record that tells of the rest itself.
  pi.on("agent_settled", (_event, ctx) => {
    ctx.ui.setStatus("pinata:usage", JSON.stringify(ctx.getContextUsage() ?? null));
  });

  // The agent is this one session, for as long as it lives.
  pi.on("session_before_switch", () => ({ cancel: true }));
  pi.on("session_before_fork", () => ({ cancel: true }));
}
