// Models that the session's host asks through this Pi, with the logins that only Pi has: questions
// come in, Pi's own events go out as pieces. What an agent is, and what its answers mean, is decided
// on the other side. No key and no header is ever part of a frame.
import type { ModelRegistry } from "@earendil-works/pi-coding-agent";
import type {
  Api,
  AssistantMessage,
  AssistantMessageEvent,
  Context,
  Message,
  Model,
  ThinkingLevel,
  Tool,
  ToolCall,
  Usage,
} from "@earendil-works/pi-ai";
import type { Frame } from "./bridge.ts";

type Piece = { type: string; [field: string]: unknown };
type Asked = {
  request: number;
  provider: string;
  model: string;
  thinking: string;
  system: string;
  messages: Message[];
  tools: Tool[];
};

// Pieces of one kind that wait together become one of about this length.
const PIECE_CHARS = 100_000;
// In one frame; the rest goes with the next one.
const FRAME_CHARS = 1_000_000;
const MOST_PIECES = 1_000;
// What waits for a slow agent; no answer of any model is as long.
const ANSWER_CHARS = 32_000_000;
// A call goes whole; one that fits into no frame is told apart by the other side.
const CALL_CHARS = 8_000_000;
const FAULT_CHARS = 2_000;
// Shorter values of headers and settings are no secrets, and would be struck out of any text.
const SECRET_CHARS = 8;

export class Streams {
  readonly #registry: ModelRegistry;
  readonly #send: (frame: Frame) => void;
  readonly #open = new Map<number, Answer>();

  constructor(registry: ModelRegistry, send: (frame: Frame) => void) {
    this.#registry = registry;
    this.#send = send;
  }

  // Takes a frame of the host; others than its questions after models are none of ours.
  hear(frame: Frame): void {
    const request = frame.request as number;
    switch (frame.type) {
      case "find_model":
        this.#send({ type: "model", request, ...this.#listing(frame) });
        break;
      case "stream":
        void this.#stream(frame as Frame & Asked);
        break;
      case "more":
        this.#open.get(request)?.ask();
        break;
      case "abort":
        this.#open.get(request)?.abort();
        this.#open.delete(request);
        break;
    }
  }

  // Drops all answers: nobody is there any more to read them.
  end(): void {
    for (const answer of this.#open.values()) answer.abort();
    this.#open.clear();
  }

  // Called from a callback of Node's: an exception that leaves it would end Pi.
  #listing(frame: Frame): Record<string, unknown> {
    try {
      return this.#find(frame);
    } catch (error) {
      return { fault: message(error).slice(0, FAULT_CHARS) };
    }
  }

  #find(frame: Frame): Record<string, unknown> {
    const provider = String(frame.provider);
    const model = this.#registry.find(provider, String(frame.model));
    if (model === undefined) return { fault: "Pi knows no such model" };
    if (!this.#registry.hasConfiguredAuth(model)) {
      return { fault: `Pi has no login for ${provider}` };
    }
    const { input, output, cacheRead, cacheWrite } = model.cost;
    const hasPrice = [input, output, cacheRead, cacheWrite].some((price) => price > 0);
    const known = model.contextWindow > 0 ? { contextTokens: model.contextWindow } : {};
    return { ...known, hasPrice };
  }

  // Never rejects: nobody waits for it.
  async #stream(asked: Asked): Promise<void> {
    const answer = new Answer((pieces, isLast) => {
      if (isLast) this.#open.delete(asked.request);
      this.#send({ type: "pieces", request: asked.request, pieces });
    });
    this.#open.set(asked.request, answer);
    let model: Model<Api> | undefined;
    try {
      model = this.#registry.find(asked.provider, asked.model);
      if (model === undefined) throw new Error("Pi knows no such model");
      const level = asked.thinking === "off" ? {} : { reasoning: asked.thinking as ThinkingLevel };
      // Whoever asks decides when to ask again, for all agents together.
      const options = { ...level, signal: answer.signal, maxRetries: 0 };
      for await (const event of this.#registry.streamSimple(model, context(asked, model), options)) {
        if (answer.signal.aborted) return;
        if (event.type !== "error") answer.take(event);
        else answer.fail(await this.#cleaned(model, faultOf(event.error)), event.error.usage);
      }
      answer.fail("the answer ended without an end");
    } catch (error) {
      answer.fail(await this.#cleaned(model, message(error)));
    }
  }

  // Returns what Pi says of an error, without the credentials that a provider may repeat.
  async #cleaned(model: Model<Api> | undefined, text: string): Promise<string> {
    const known = model && (await this.#registry.getApiKeyAndHeaders(model).catch(() => undefined));
    if (known?.ok !== true) return text;
    const values = [known.apiKey, ...Object.values(known.headers ?? {}), ...Object.values(known.env ?? {})];
    return values
      .flatMap((value) => [value, value?.replace(/^\w+ /, "")])
      .filter((value) => value != null && value.length >= SECRET_CHARS)
      .reduce<string>((left, value) => left.replaceAll(String(value), "[key]"), text);
  }
}

// One answer: what has come and was not asked for yet. It is handed out frame by frame.
class Answer {
  readonly #hand: (pieces: Piece[], isLast: boolean) => void;
  readonly #controller = new AbortController();
  #waiting: Piece[] = [];
  #waitingChars = 0;
  #isAsked = true;
  #hasEnded = false;

  constructor(hand: (pieces: Piece[], isLast: boolean) => void) {
    this.#hand = hand;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  abort(): void {
    this.#hasEnded = true;
    this.#waiting = [];
    this.#controller.abort();
  }

  // The other side has taken what it was given, and wants the next.
  ask(): void {
    this.#isAsked = true;
    this.#give();
  }

  take(event: AssistantMessageEvent): void {
    switch (event.type) {
      case "text_delta":
        return this.#addText("text", event.delta);
      case "thinking_delta":
        return this.#addText("thinking", event.delta);
      case "thinking_end": {
        const block = event.partial.content[event.contentIndex];
        if (block?.type !== "thinking") return;
        const { thinkingSignature: signature = "", redacted = false } = block;
        return this.#add({ type: "thought", signature, redacted });
      }
      case "done":
        return this.#end(event.message);
    }
  }

  fail(words: string, usage?: Usage): void {
    const counted = usage === undefined ? {} : { usage: counts(usage) };
    this.#add({ type: "fault", words: words.slice(0, FAULT_CHARS), ...counted });
    this.#hasEnded = true;
  }

  // What belongs to a call is complete only now: some providers sign calls at the end.
  #end(said: AssistantMessage): void {
    const calls = said.content.filter((block) => block.type === "toolCall").map(callOf);
    this.#add(...calls, { type: "end", reason: said.stopReason, usage: counts(said.usage) });
    this.#hasEnded = true;
  }

  #addText(type: string, text: string): void {
    const last = this.#waiting.at(-1);
    const joined = last?.type === type ? String(last.text) : "";
    if (last?.type === type && joined.length + text.length <= PIECE_CHARS) {
      last.text = joined + text;
      this.#waitingChars += text.length;
      return this.#give();
    }
    for (let start = 0; start < text.length; start += PIECE_CHARS) {
      this.#add({ type, text: text.slice(start, start + PIECE_CHARS) });
    }
  }

  #add(...pieces: Piece[]): void {
    if (this.#hasEnded) return;
    for (const piece of pieces) {
      this.#waiting.push(piece);
      this.#waitingChars += sizeOf(piece);
    }
    if (this.#waitingChars > ANSWER_CHARS) {
      this.#waiting = [{ type: "fault", words: "the answer is too long" }];
      this.#hasEnded = true;
      this.#controller.abort();
    }
    this.#give();
  }

  #give(): void {
    if (!this.#isAsked || this.#waiting.length === 0) return;
    let size = 0;
    let count = 0;
    while (count < this.#waiting.length && count < MOST_PIECES) {
      size += sizeOf(this.#waiting[count] as Piece);
      if (count > 0 && size > FRAME_CHARS) break;
      count += 1;
    }
    const pieces = this.#waiting.splice(0, count);
    this.#waitingChars -= pieces.reduce((sum, piece) => sum + sizeOf(piece), 0);
    this.#isAsked = false;
    const last = pieces.at(-1)?.type;
    this.#hand(pieces, last === "end" || last === "fault");
  }
}

// What came from this model goes back to it as its own, signatures included.
function context(asked: Asked, model: Model<Api>): Context {
  const timestamp = Date.now();
  const messages = asked.messages.map((said): Message => {
    if (said.role !== "assistant") return { ...said, timestamp };
    const stopReason = said.content.some((block) => block.type === "toolCall") ? "toolUse" : "stop";
    const { api, provider, id } = model;
    return { ...said, api, provider, model: id, usage: NOTHING, stopReason, timestamp };
  });
  return { systemPrompt: asked.system, messages, tools: asked.tools };
}

const NOTHING: Usage = {
  input: 0,
  output: 0,
  cacheRead: 0,
  cacheWrite: 0,
  totalTokens: 0,
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
};

function callOf(call: ToolCall): Piece {
  const { id, name, thoughtSignature: signature = "", argumentsError: fault = "" } = call;
  const known = { type: "call", id, name, signature };
  if (JSON.stringify(call.arguments).length <= CALL_CHARS) {
    return { ...known, fault, arguments: call.arguments };
  }
  return { ...known, fault: "the arguments are too long; send less at once", arguments: {} };
}

function counts(usage: Usage): Record<string, number> {
  const { input, output, cacheRead, cacheWrite, cost } = usage;
  return { input, output, cacheRead, cacheWrite, cost: cost.total };
}

function faultOf(answer: AssistantMessage): string {
  return answer.errorMessage || `the answer ended with ${answer.stopReason}`;
}

function message(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function sizeOf(piece: Piece): number {
  if (typeof piece.text === "string") return piece.text.length;
  return piece.type === "call" ? JSON.stringify(piece.arguments).length : 1;
}
