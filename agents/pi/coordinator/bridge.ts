// The child process that carries frames to the session's host and back: one JSON object a line.
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";

export type Frame = { type: string; [field: string]: unknown };
export type Progress = (message: string) => void;

type Waiting = {
  resolve(frame: Frame): void;
  reject(error: Error): void;
  progress: Progress | undefined;
};

const LAST_WORDS_CHARS = 2_000;
const PATIENCE_MS = 2_000;

export class Bridge {
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #waiting = new Map<number, Waiting>();
  readonly #heard: (frame: Frame) => void;
  readonly #gone: (reason: string) => void;
  #lastId = 0;
  #hasEnded = false;
  #isClosing = false;
  #lastWords = "";

  // `heard` is given each frame that answers no call, `gone` once the child has ended by itself.
  constructor(
    command: readonly [string, ...string[]],
    cwd: string,
    heard: (frame: Frame) => void,
    gone: (reason: string) => void,
  ) {
    this.#heard = heard;
    this.#gone = gone;
    const [program, ...rest] = command;
    // Nothing is inherited: in a terminal, Pi owns the screen.
    this.#child = spawn(program, rest, { cwd, stdio: ["pipe", "pipe", "pipe"] });
    this.#child.stdin.on("error", () => {}); // its end is told by `exit`
    this.#child.stderr.setEncoding("utf8");
    this.#child.stderr.on("data", (text: string) => {
      this.#lastWords = (this.#lastWords + text).slice(-LAST_WORDS_CHARS);
    });
    this.#readLines();
    this.#child.on("error", (error) => this.#end(`it cannot be started: ${error.message}`));
    this.#child.on("close", (code, signal) => {
      const line = this.#lastWords.trim().split("\n").pop();
      this.#end(line || `it ended with ${signal ?? `code ${code}`}`);
    });
  }

  #readLines(): void {
    let parts: Buffer[] = [];
    this.#child.stdout.on("data", (chunk: Buffer) => {
      let start = 0;
      for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
        parts.push(chunk.subarray(start, end));
        this.#hear(Buffer.concat(parts).toString("utf8"));
        parts = [];
        start = end + 1;
      }
      if (start < chunk.length) parts.push(chunk.subarray(start));
    });
  }

  // Called from a callback of Node's: an exception that leaves it would end Pi.
  #hear(line: string): void {
    try {
      const frame = JSON.parse(line) as Frame;
      const waiting = typeof frame.id === "number" ? this.#waiting.get(frame.id) : undefined;
      if (waiting === undefined) {
        // An answer comes late where nobody waits any more.
        if (frame.id === undefined || frame.type === "result") this.#heard(frame);
      } else if (frame.type === "progress") {
        waiting.progress?.(String(frame.message));
      } else {
        this.#waiting.delete(frame.id as number);
        if (frame.type === "error") waiting.reject(new Error(String(frame.error)));
        else waiting.resolve(frame);
      }
    } catch (error) {
      this.#end(`it sent what cannot be understood: ${String(error)}`);
      this.#child.kill();
    }
  }

  #end(reason: string): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    for (const waiting of this.#waiting.values()) {
      waiting.reject(
        new Error(`the way to pinata broke (${reason}); what a run comes to is told by a message`),
      );
    }
    this.#waiting.clear();
    if (!this.#isClosing) this.#gone(reason);
  }

  send(frame: Frame): void {
    if (!this.#hasEnded) this.#child.stdin.write(`${JSON.stringify(frame)}\n`);
  }

  // Sends a frame with a number of its own and waits for the answer. An abort is passed on, and
  // nobody waits for what it leads to.
  request(frame: Frame, signal?: AbortSignal, progress?: Progress): Promise<Frame> {
    if (this.#hasEnded) return Promise.reject(new Error("pinata is gone: /reload tries again"));
    if (signal?.aborted) return Promise.reject(new Error("cancelled"));
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      const abort = () => {
        this.#waiting.delete(id);
        this.send({ type: "cancel", id });
        reject(new Error("cancelled"));
      };
      const settled = <T>(then: (value: T) => void) => (value: T) => {
        signal?.removeEventListener("abort", abort);
        then(value);
      };
      signal?.addEventListener("abort", abort, { once: true });
      this.#waiting.set(id, { resolve: settled(resolve), reject: settled(reject), progress });
      this.send({ ...frame, id });
    });
  }

  // Says goodbye and waits until the child has ended.
  async close(reason: string): Promise<void> {
    if (this.#hasEnded || this.#isClosing) return;
    this.#isClosing = true;
    const ended = new Promise<void>((resolve) => this.#child.once("close", () => resolve()));
    this.send({ type: "goodbye", reason });
    this.#child.stdin.end();
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), PATIENCE_MS);
    await ended;
    clearTimeout(timer);
  }
}
