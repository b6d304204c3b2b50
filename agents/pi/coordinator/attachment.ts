// A session's way to its host: the bridge, which is opened anew when it breaks, and what is heard
// over it.
import type { ExtensionAPI, ExtensionContext } from "@earendil-works/pi-coding-agent";
import { truncateToWidth } from "@earendil-works/pi-tui";
import { Bridge, type Frame } from "./bridge.ts";
import { Deliveries, type Delivery } from "./deliveries.ts";
import { Ownership } from "./ownership.ts";
import { findProgram } from "./program.ts";
import { Saved } from "./saved.ts";
import { Streams } from "./streams.ts";

const PROTOCOL = 1;
const PATIENCE_MS = 20_000;
const NAME = "pinata";
// A program that breaks again and again is not started for ever.
const MOST_RETURNS = 5;

export class Attachment {
  readonly deliveries: Deliveries;
  // What the host wants the session's model to know from the start.
  instructions: string | undefined;
  readonly #ownership: Ownership;
  readonly #ctx: ExtensionContext;
  #bridge: Bridge | undefined;
  #streams: Streams | undefined;
  #isCurrent = true;
  // Whether the host wants this client no more.
  #isDismissed = false;
  #returns = 0;
  // Of whoever waits for the host's first frame.
  #greeted: { welcome(frame: Frame): void; refuse(error: Error): void } | undefined;

  constructor(pi: ExtensionAPI, ctx: ExtensionContext) {
    this.#ctx = ctx;
    const saved = new Saved(ctx);
    this.deliveries = new Deliveries(pi, ctx, saved, (delivery) => {
      if (!this.#ownership.confirm(delivery)) this.#bridge?.send({ type: "ack", delivery });
    });
    this.#ownership = new Ownership(ctx, this.deliveries, saved, (frame) => this.#bridge?.send(frame));
  }

  // Returns the host's welcome.
  async attach(): Promise<Frame> {
    const session = this.#ctx.sessionManager.getSessionId();
    const command = [findProgram(process.env), "pi", "--session", session] as const;
    const bridge = new Bridge(
      command,
      this.#ctx.cwd,
      (frame) => this.#hear(bridge, frame),
      (reason) => this.#lose(bridge, reason),
    );
    this.#bridge = bridge;
    this.#streams = new Streams(this.#ctx.modelRegistry, (frame) => bridge.send(frame));
    const welcome = new Promise<Frame>((resolve, reject) => {
      this.#greeted = { welcome: resolve, refuse: reject };
    });
    bridge.send({
      type: "hello",
      v: PROTOCOL,
      role: "session",
      session,
      cwd: this.#ctx.cwd,
      mode: this.#ctx.mode,
      trust: this.#ctx.isProjectTrusted(),
      lendsModels: true,
      ownsAgents: true,
    });
    try {
      this.tellModel();
      this.#ownership.begin();
      const frame = await inTime(welcome);
      if (frame.v !== PROTOCOL) throw new Error(`it speaks version ${frame.v}, and not ${PROTOCOL}`);
      this.instructions = typeof frame.instructions === "string" ? frame.instructions : undefined;
      for (const notice of frame.notices as string[]) {
        if (this.#isCurrent) say(this.#ctx, `pinata: ${notice}`, "info");
      }
      return frame;
    } catch (error) {
      this.#leave(bridge);
      throw error;
    } finally {
      this.#greeted = undefined;
    }
  }

  request(frame: Frame, signal?: AbortSignal, progress?: (message: string) => void): Promise<Frame> {
    if (this.#bridge === undefined) {
      return Promise.reject(new Error("pinata is not attached: /reload tries again"));
    }
    return this.#bridge.request(frame, signal, progress);
  }

  // Returns once nothing works any more that would end with the session.
  async hold(): Promise<void> {
    this.deliveries.isHolding = true;
    this.tellIdle();
    try {
      await this.#hold();
    } finally {
      this.deliveries.isHolding = false;
      this.tellIdle();
    }
  }

  async #hold(): Promise<void> {
    for (;;) {
      const bridge = this.#bridge;
      try {
        await this.request({ type: "hold" });
        return;
      } catch (error) {
        // A new one may be there by now.
        if (this.#bridge === undefined || this.#bridge === bridge) throw error;
      }
    }
  }

  // Says whether the session is idle; called whenever that may have changed.
  tellIdle(): void {
    this.#ownership.tellIdle();
  }

  // Says with which model the session works: so do agents for which no other one is named.
  tellModel(): void {
    const { model, thinkingLevel: thinking = "off" } = this.#ctx;
    if (model === undefined) return;
    this.#bridge?.send({ type: "uses", provider: model.provider, model: model.id, thinking });
  }

  #hear(bridge: Bridge, frame: Frame): void {
    // Pi's objects throw once another session has taken their place.
    if (!this.#isCurrent || bridge !== this.#bridge) return;
    switch (frame.type) {
      case "welcome":
        this.#greeted?.welcome(frame);
        break;
      case "delivery":
        this.deliveries.receive(frame as Frame & Delivery);
        break;
      case "result": {
        // Of a call that was given up: its end is told, but is no reason to wake anybody.
        const { run, status } = frame.answer as { run?: string; status?: string };
        const text = `Run ${run}, whose call was given up, has ended: ${status}.`;
        if (typeof frame.delivery === "string") {
          this.deliveries.receive({ delivery: frame.delivery, text, quiet: true });
        }
        break;
      }
      case "status":
        this.#ctx.ui.setStatus(NAME, typeof frame.text === "string" ? frame.text : undefined);
        break;
      case "widget":
        this.#show(Array.isArray(frame.lines) ? frame.lines.map(String) : undefined);
        break;
      case "notice":
        say(this.#ctx, `pinata: ${frame.text}`, "info");
        break;
      case "displaced":
      case "refused":
        this.#isDismissed = true;
        this.#leave(bridge);
        this.#tell(String(frame.reason ?? frame.error));
        break;
      case "read_history":
      case "enter":
        this.#ownership.hear(frame);
        break;
      default:
        this.#streams?.hear(frame);
    }
  }

  #show(lines: string[] | undefined): void {
    if (lines === undefined || this.#ctx.mode !== "tui") return this.#ctx.ui.setWidget(NAME, lines);
    this.#ctx.ui.setWidget(NAME, () => ({
      render: (width: number) => lines.map((line) => truncateToWidth(line, width)),
      invalidate: () => {},
    }));
  }

  // Called when the bridge has ended by itself: whatever it was, the work goes on in the host, or is
  // taken up by the next one.
  #lose(bridge: Bridge, reason: string): void {
    if (!this.#isCurrent || bridge !== this.#bridge) return;
    this.#leave(bridge);
    if (this.#greeted !== undefined) this.#greeted.refuse(new Error(reason));
    else void this.#return(reason);
  }

  // Attaches again; on a busy machine the first try may come to nothing.
  async #return(reason: string): Promise<void> {
    let last = reason;
    while (this.#returns < MOST_RETURNS) {
      this.#returns += 1;
      try {
        await this.attach();
        return;
      } catch (error) {
        if (!this.#isCurrent) return;
        last = messageOf(error);
      }
      // Whoever sent this client away said why; to come back would send another one away.
      if (this.#isDismissed) return this.#tell(last);
    }
    this.#tell(`the way to the session's host broke ${MOST_RETURNS} times (${last}); /reload tries again`);
  }

  #leave(bridge: Bridge): void {
    if (bridge !== this.#bridge || !this.#isCurrent) return;
    this.#bridge = undefined;
    this.#streams?.end();
    this.#ctx.ui.setStatus(NAME, undefined);
    this.#show(undefined);
    void bridge.close("reload");
  }

  // Tells why the session is attached no more. The host tells whoever is attached next what it has not
  // been told was saved, be that the same session opened elsewhere.
  #tell(reason: string): void {
    this.deliveries.forget();
    if (this.#greeted !== undefined) this.#greeted.refuse(new Error(reason));
    else say(this.#ctx, `pinata: ${reason}`, "error");
  }

  async end(reason: string): Promise<void> {
    this.#isCurrent = false;
    this.#greeted?.refuse(new Error("the session has ended"));
    this.#streams?.end();
    this.deliveries.stop();
    await this.#bridge?.close(reason);
  }
}

// Tells the person, or whoever reads the errors of a program without one.
export function say(ctx: ExtensionContext, text: string, kind: "info" | "error"): void {
  if (ctx.hasUI) ctx.ui.notify(text, kind);
  else console.error(text);
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
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
