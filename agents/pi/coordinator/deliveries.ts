// Results that arrive on their own: each enters the conversation once, and is confirmed only when
// the session's file holds it. They wait here while the session is busy and not in Pi's own queue,
// which is emptied without a word when a person presses Escape.
import { existsSync } from "node:fs";
import type { ExtensionAPI, ExtensionContext, SessionEntry } from "@earendil-works/pi-coding-agent";

export const RESULT = "pinata-result";

// A quiet one wakes nobody: whoever prompts next reads it.
export type Delivery = { delivery: string; text: string; quiet?: boolean };
type Details = { deliveries: string[] };

// Results that settle together become one message, and so one request to the model.
const GATHERING_MS = 50;
// Nothing is said when a compaction has ended.
const COMPACTION_MS = 250;

export class Deliveries {
  readonly #pi: ExtensionAPI;
  readonly #ctx: ExtensionContext;
  readonly #confirm: (key: string) => void;
  // By key; one without a text is told by the answer of a call.
  readonly #unconfirmed = new Map<string, Delivery | undefined>();
  #timer: NodeJS.Timeout | undefined;
  #isRunning = false;
  // Whether a message is on its way into the conversation.
  #isSent = false;

  constructor(pi: ExtensionAPI, ctx: ExtensionContext, confirm: (key: string) => void) {
    this.#pi = pi;
    this.#ctx = ctx;
    this.#confirm = confirm;
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
    this.#pi.sendMessage(messageOf(waiting), { triggerTurn: wakes });
    this.confirmSaved();
  }

  // Returns what has arrived as one message; undefined when nothing has.
  take() {
    const waiting = this.#waiting();
    return waiting.length === 0 ? undefined : messageOf(waiting);
  }

  // What has arrived and is in the conversation neither on disk nor in memory.
  #waiting(): Delivery[] {
    if (this.#unconfirmed.size === 0) return [];
    const entered = this.#entered();
    const arrived = [...this.#unconfirmed.values()].filter((each) => each !== undefined);
    return arrived.filter((each) => !entered.has(each.delivery));
  }

  #entered(): Set<string> {
    return new Set(this.#ctx.sessionManager.getEntries().flatMap(deliveriesOf));
  }

  // Confirms what the session's file holds by now; called whenever something was added to it. Pi
  // makes the file with the first message of a conversation: until then, what it has taken lives in
  // its memory alone. A session that keeps no file holds what it holds.
  confirmSaved(): void {
    if (this.#unconfirmed.size === 0) return;
    const file = this.#ctx.sessionManager.getSessionFile();
    if (file !== undefined && !existsSync(file)) return;
    const saved = this.#entered();
    for (const key of [...this.#unconfirmed.keys()].filter((each) => saved.has(each))) {
      this.#unconfirmed.delete(key);
      this.#confirm(key);
    }
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}

function messageOf(waiting: Delivery[]) {
  const details: Details = { deliveries: waiting.map((each) => each.delivery) };
  const content = waiting.map((each) => each.text).join("\n\n");
  return { customType: RESULT, content, display: true, details };
}

function deliveriesOf(entry: SessionEntry): string[] {
  if (entry.type === "custom_message" && entry.customType === RESULT) {
    return (entry.details as Details | undefined)?.deliveries ?? [];
  }
  if (entry.type === "message" && entry.message.role === "toolResult") {
    return (entry.message.details as Details | undefined)?.deliveries ?? [];
  }
  return [];
}
