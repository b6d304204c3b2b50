// Loaded inside an agent that is a Pi of its own. It asks the engine about each call, hands results
// over, and lets the agent stop only when the engine says so. It knows no rule itself.
import type { ExtensionAPI, ExtensionContext } from "@earendil-works/pi-coding-agent";

const SPEC = "PINATA_CHILD";
const ASKING = "pinata:ask";
const NO_ANSWER = "the engine did not answer";

type Spec = {
  submit: { name: string; description: string; parameters: Record<string, unknown> };
};

// What the engine says: `refusal` tells the model why not, `more` lets it go on with a message.
type Answer = { refusal?: string; text?: string; more?: string };

// One question over Pi's own stream: it keeps its place among the events, and there is no other
// file, port or socket. Without a valid answer the call that it is about is not made.
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

export default function serve(pi: ExtensionAPI): void {
  const spec = JSON.parse(process.env[SPEC] ?? "null") as Spec | null;
  if (spec === null) throw new Error(`${SPEC} is not set: this extension is for pinata's own agents`);
  delete process.env[SPEC]; // nothing that the agent starts needs it

  pi.registerTool({
    name: spec.submit.name,
    label: spec.submit.name,
    description: spec.submit.description,
    promptSnippet: "Hand in your result, alone and as the last call",
    parameters: spec.submit.parameters,
    executionMode: "sequential",
    exposure: "model-only",
    async execute(call, params, signal, _onUpdate, ctx) {
      const answer = await ask(ctx, { ask: "submit", call, arguments: params }, signal);
      const text = answer.refusal ?? answer.text ?? "";
      const isAccepted = answer.refusal === undefined;
      return {
        content: [{ type: "text", text }],
        details: {},
        isError: !isAccepted,
        terminate: isAccepted,
      };
    },
  });

  // A handler that throws blocks its call, so an engine that is gone lets nothing through.
  pi.on("tool_call", async (event, ctx) => {
    if (event.toolName === spec.submit.name) return;
    const question = { ask: "call", call: event.toolCallId, tool: event.toolName, arguments: event.input };
    const answer = await ask(ctx, question, ctx.signal);
    if (answer.refusal !== undefined) return { block: true, reason: answer.refusal };
    return;
  });

  pi.on("agent_before_settle", async (event, ctx) => {
    const answer = await ask(ctx, { ask: "settle", outcome: event.outcome });
    if (answer.more === undefined) return;
    const message = {
      type: "custom_message" as const,
      customType: "pinata-more",
      content: answer.more,
      display: true,
    };
    return { entries: [...event.entries, message], continue: true };
  });
}
