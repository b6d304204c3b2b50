// Results that arrive on their own: each enters the conversation once, and is confirmed only when
// the session's file holds it.
import { existsSync } from "node:fs";
import type { ExtensionAPI, ExtensionContext, SessionEntry } from "@earendil-works/pi-coding-agent";

export const RESULT = "pinata-result";

export type Delivery = { delivery: string; text: string };
type Details = { deliveries: string[] };

// Results that settle together become one message, and so one request to the model.
const GATHERING_MS = 50;

export class Deliveries {
  readonly #pi: ExtensionAPI;
  readonly #ctx: ExtensionContext;
  readonly #confirm: (key: string) => void;
  readonly #unconfirmed = new Set<string>();
  #gathered: Delivery[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(pi: ExtensionAPI, ctx: ExtensionContext, confirm: (key: string) => void) {
    this.#pi = pi;
    this.#ctx = ctx;
    this.#confirm = confirm;
  }

  // Whether results are handed out by `take` instead of waking the session.
  get #isHeld(): boolean {
    return this.#ctx.mode === "print" || this.#ctx.mode === "json";
  }

  // Notes that the answer of a call stands for a delivery, once the call's result is saved.
  expect(key: string): void {
    this.#unconfirmed.add(key);
  }

  receive(delivery: Delivery): void {
    const key = delivery.delivery;
    if (this.#unconfirmed.has(key)) return;
    this.#unconfirmed.add(key);
    if (this.#saved().has(key)) return this.confirmSaved();
    this.#gathered.push(delivery);
    if (!this.#isHeld) this.#timer ??= setTimeout(() => this.#send(), GATHERING_MS);
  }

  #send(): void {
    this.#timer = undefined;
    const message = this.take();
    if (message === undefined) return;
    // An idle session is woken; a busy one reads it when it would stop.
    this.#pi.sendMessage(message, { triggerTurn: true, deliverAs: "followUp" });
  }

  // Returns what has arrived as one message; undefined when nothing has.
  take() {
    const gathered = this.#gathered;
    this.#gathered = [];
    if (gathered.length === 0) return undefined;
    const details: Details = { deliveries: gathered.map((each) => each.delivery) };
    const content = gathered.map((each) => each.text).join("\n\n");
    return { customType: RESULT, content, display: true, details };
  }

  // Confirms what the session's file holds by now; called whenever something was added to it.
  confirmSaved(): void {
    if (this.#unconfirmed.size === 0) return;
    const saved = this.#saved();
    for (const key of this.#unconfirmed) {
      if (!saved.has(key)) continue;
      this.#unconfirmed.delete(key);
      this.#confirm(key);
    }
  }

  // Pi makes the file with the first message of a conversation: until then, what it has taken lives
  // in its memory alone. A session that keeps no file holds what it holds.
  #saved(): Set<string> {
    const file = this.#ctx.sessionManager.getSessionFile();
    if (file !== undefined && !existsSync(file)) return new Set();
    return new Set(this.#ctx.sessionManager.getEntries().flatMap(deliveriesOf));
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#gathered = [];
  }
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
