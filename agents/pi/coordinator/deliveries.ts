// What arrives on its own: ends of runs, and what agents came to, ask or need. Each enters the
// conversation once, and is confirmed only when the session's file holds it. What arrives while the
// session is busy waits here and not in Pi's own queue, which is emptied without a word when a person
// presses Escape.
import type { ExtensionAPI, ExtensionContext, SessionEntry } from "@earendil-works/pi-coding-agent";
import type { Saved } from "./saved.ts";

export const RESULT = "pinata-result";
const AGENT_RESULT = "pinata-agent-result";
const OF_AGENTS = "pinata-agent-";

// A quiet one wakes nobody: whoever prompts next reads it. One with an entry becomes a message of its
// own, which programs can read too; all others that settle together become one.
export type Delivery = {
  delivery: string;
  text: string;
  quiet?: boolean;
  entry?: { kind: string; details: Record<string, unknown> };
};
type Message = { customType: string; content: string; display: boolean; details: unknown };
type Details = { delivery?: string; deliveries?: string[] };

// Results that settle together become one message, and so one request to the model.
const GATHERING_MS = 50;
// Nothing is said when a compaction has ended.
const COMPACTION_MS = 250;

export class Deliveries {
  readonly #pi: ExtensionAPI;
  readonly #ctx: ExtensionContext;
  readonly #saved: Saved;
  readonly #confirm: (key: string) => void;
  // By key; one without a text is told by the answer of a call.
  readonly #unconfirmed = new Map<string, Delivery | undefined>();
  // Entries that no model reads, each with who waits until it is saved; by the entry's id.
  readonly #appended = new Map<string, () => void>();
  #timer: NodeJS.Timeout | undefined;
  #isRunning = false;
  // Whether a message is on its way into the conversation.
  #isSent = false;
  // Whether a session without a person waits for what is still to come.
  isHolding = false;

  constructor(
    pi: ExtensionAPI,
    ctx: ExtensionContext,
    saved: Saved,
    confirm: (key: string) => void,
  ) {
    this.#pi = pi;
    this.#ctx = ctx;
    this.#saved = saved;
    this.#confirm = confirm;
  }

  // Whether nothing is under way, and nothing is about to be.
  get isIdle(): boolean {
    return this.isHolding || (!this.#isRunning && !this.#isSent && this.#ctx.isIdle());
  }

  // Notes that the answer of a call stands for a delivery, once the call's result is saved.
  expect(key: string): void {
    if (!this.#unconfirmed.has(key)) this.#unconfirmed.set(key, undefined);
  }

  receive(delivery: Delivery): void {
    const key = delivery.delivery;
    if (this.#unconfirmed.has(key)) return;
    this.#unconfirmed.set(key, delivery);
    this.confirmSaved();
    this.#sendIn(GATHERING_MS);
  }

  // Saves what no model reads; `saved` is called when the session's file holds it.
  append(kind: string, details: Record<string, unknown>, saved: () => void): void {
    this.#pi.appendEntry(kind, details);
    const entry = this.#ctx.sessionManager.getLeafId();
    if (entry === null) throw new Error("the session took no entry");
    this.#appended.set(entry, saved);
    this.confirmSaved();
  }

  started(): void {
    this.#isRunning = true;
  }

  // A person who has pressed Escape wants to be heard first: what there is to tell wakes nobody.
  settled(wasAborted: boolean): void {
    this.#isRunning = this.#isSent = false;
    this.confirmSaved();
    this.#send(!wasAborted);
  }

  // Whether results are handed out by `take` instead of waking the session.
  get #isHeld(): boolean {
    return this.#ctx.mode === "print" || this.#ctx.mode === "json";
  }

  #sendIn(ms: number): void {
    if (this.#isHeld) return;
    this.#timer ??= setTimeout(() => {
      try {
        this.#send(true);
      } catch {
        // What leaves a timer would end Pi. Unconfirmed as it is, it is told by the next session.
      }
    }, ms);
  }

  #send(mayWake: boolean): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#isHeld || this.#isRunning || this.#isSent) return;
    const waiting = this.#waiting();
    if (waiting.length === 0) return;
    if (!this.#ctx.isIdle()) return this.#sendIn(COMPACTION_MS);
    const wakes = mayWake && waiting.some((each) => !each.quiet);
    this.#isSent = wakes;
    const messages = messagesOf(waiting);
    for (const [at, message] of messages.entries()) {
      this.#pi.sendMessage(message, { triggerTurn: wakes && at === messages.length - 1 });
    }
    this.confirmSaved();
  }

  // Returns what has arrived as messages; none when nothing has.
  take(): Message[] {
    return messagesOf(this.#waiting());
  }

  // What has arrived and is in the conversation neither on disk nor in memory.
  #waiting(): Delivery[] {
    if (this.#unconfirmed.size === 0) return [];
    const entered = this.#entered();
    const arrived = [...this.#unconfirmed.values()].filter((each) => each !== undefined);
    return arrived.filter((each) => !entered.has(each.delivery));
  }

  // What an agent asks or needs must be on the way that the session goes now; an end is told once.
  #entered(isIt: (entry: SessionEntry) => boolean = () => true): Set<string> {
    const manager = this.#ctx.sessionManager;
    const here = manager.getBranch().filter(isIt).flatMap(remindersOf);
    return new Set([...manager.getEntries().filter(isIt).flatMap(deliveriesOf), ...here]);
  }

  // Confirms what the session's file holds by now; called whenever something was added to it.
  confirmSaved(): void {
    if (this.#unconfirmed.size === 0 && this.#appended.size === 0) return;
    const ids = this.#saved.ids();
    for (const [entry, saved] of this.#appended) {
      if (ids?.has(entry) === false) continue;
      this.#appended.delete(entry);
      saved();
    }
    if (this.#unconfirmed.size === 0) return;
    const entered = this.#entered((entry) => ids?.has(entry.id) !== false);
    for (const key of [...this.#unconfirmed.keys()].filter((each) => entered.has(each))) {
      this.#unconfirmed.delete(key);
      this.#confirm(key);
    }
  }

  // Leaves what waits here to whoever is told of it instead: said twice, it would be done twice.
  forget(): void {
    this.stop();
    this.#unconfirmed.clear();
    this.#appended.clear();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}

function messagesOf(waiting: Delivery[]): Message[] {
  const messages: Message[] = [];
  const runs = waiting.filter((each) => each.entry === undefined);
  if (runs.length > 0) {
    const details: Details = { deliveries: runs.map((each) => each.delivery) };
    const content = runs.map((each) => each.text).join("\n\n");
    messages.push({ customType: RESULT, content, display: true, details });
  }
  for (const { text, entry } of waiting) {
    if (entry === undefined) continue;
    messages.push({ customType: entry.kind, content: text, display: true, details: entry.details });
  }
  return messages;
}

function deliveriesOf(entry: SessionEntry): string[] {
  if (entry.type === "custom_message") {
    const details = entry.details as Details | undefined;
    if (entry.customType === RESULT) return details?.deliveries ?? [];
    if (entry.customType === AGENT_RESULT && details?.delivery) return [details.delivery];
  }
  if (entry.type === "message" && entry.message.role === "toolResult") {
    return (entry.message.details as Details | undefined)?.deliveries ?? [];
  }
  return [];
}

function remindersOf(entry: SessionEntry): string[] {
  if (entry.type !== "custom_message" || entry.customType === AGENT_RESULT) return [];
  const key = (entry.details as Details | undefined)?.delivery;
  return entry.customType.startsWith(OF_AGENTS) && key !== undefined ? [key] : [];
}
