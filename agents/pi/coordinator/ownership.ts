// The session as the owner of agents: its host asks what it holds of them and what shall enter its
// conversation. What an entry means is decided on the other side.
import type { ExtensionContext, SessionEntry } from "@earendil-works/pi-coding-agent";
import type { Frame } from "./bridge.ts";
import type { Deliveries } from "./deliveries.ts";
import type { Saved } from "./saved.ts";

type Details = Record<string, unknown>;
type Told = { kind: string; details: Details; onBranch: boolean };

export class Ownership {
  readonly #ctx: ExtensionContext;
  readonly #deliveries: Deliveries;
  readonly #saved: Saved;
  readonly #send: (frame: Frame) => void;
  // The orders to put a message into the conversation that are not confirmed, by the message's key.
  readonly #ordered = new Map<string, number[]>();
  #wasIdle: boolean | undefined;

  constructor(
    ctx: ExtensionContext,
    deliveries: Deliveries,
    saved: Saved,
    send: (frame: Frame) => void,
  ) {
    this.#ctx = ctx;
    this.#deliveries = deliveries;
    this.#saved = saved;
    this.#send = send;
  }

  // Begins with a host that was told nothing yet; what another one ordered is confirmed to nobody.
  begin(): void {
    this.#ordered.clear();
    this.#wasIdle = undefined;
    this.tellIdle();
  }

  // Says whether the session is idle, if that is news.
  tellIdle(): void {
    const idle = this.#deliveries.isIdle;
    if (idle === this.#wasIdle) return;
    this.#wasIdle = idle;
    this.#send({ type: "idle", idle });
  }

  // Takes a frame of the host; others than those to an owner are none of ours. Called from a callback
  // of Node's: an exception that leaves it would end Pi.
  hear(frame: Frame): void {
    const request = frame.request as number;
    try {
      if (frame.type === "read_history") {
        const kinds = new Set(frame.kinds as string[]);
        this.#send({ type: "history", request, entries: this.#history(kinds) });
      } else if (frame.type === "enter") {
        this.#enter(request, frame);
      }
    } catch (error) {
      const fault = String(error).slice(0, 2_000);
      if (frame.type === "read_history") this.#send({ type: "history", request, entries: [], fault });
      else this.#send({ type: "entered", request, entered: false, fault });
    }
  }

  // What the file does not hold is told of to nobody: it would be forgotten elsewhere.
  #history(kinds: Set<string>): Told[] {
    const manager = this.#ctx.sessionManager;
    const ids = this.#saved.ids();
    const branch = new Set(manager.getBranch().map((entry) => entry.id));
    return manager.getEntries().flatMap((entry) => {
      const told = toldBy(entry);
      if (told === undefined || !kinds.has(told.kind) || ids?.has(entry.id) === false) return [];
      return [{ ...told, onBranch: branch.has(entry.id) }];
    });
  }

  #enter(request: number, frame: Frame): void {
    const kind = String(frame.kind);
    const details = frame.details as Details;
    if (typeof frame.text !== "string") {
      this.#deliveries.append(kind, details, () => this.#send({ type: "entered", request, entered: true }));
      return;
    }
    const key = String(details.delivery);
    if (frame.onlyIfIdle === true && !this.#deliveries.isIdle) {
      this.#send({ type: "entered", request, entered: false });
      return;
    }
    this.#ordered.set(key, [...(this.#ordered.get(key) ?? []), request]);
    this.#deliveries.receive({ delivery: key, text: frame.text, entry: { kind, details } });
  }

  // Tells the host that the session's file holds a message; returns whether it had ordered it.
  confirm(key: string): boolean {
    const requests = this.#ordered.get(key);
    this.#ordered.delete(key);
    for (const request of requests ?? []) this.#send({ type: "entered", request, entered: true });
    return requests !== undefined;
  }
}

function toldBy(entry: SessionEntry): { kind: string; details: Details } | undefined {
  if (entry.type === "custom_message") {
    return { kind: entry.customType, details: (entry.details ?? {}) as Details };
  }
  if (entry.type === "custom") return { kind: entry.customType, details: (entry.data ?? {}) as Details };
  return undefined;
}
