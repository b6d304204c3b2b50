// Plays the Pi around `streams.ts`: takes steps from stdin, and tells what each of them led to.
//
// {pi: {models, logins, secrets}, steps: [...]}, where a step is one of
//   {hear: frame}      the host says something
//   {event: {...}}     the model of the newest stream does
//   {close: true}      its stream ends as no stream should
//   {break: "words"}   its stream breaks
//   {leave: true}      the way to the host is gone
import { readFileSync } from "node:fs";

const { Streams } = await import(process.argv[2]);
const { pi, steps } = JSON.parse(readFileSync(0, "utf8"));
const sent = [];
const streams = [];

class Stream {
  #events = [];
  #wake = () => {};

  push(event) {
    this.#events.push(event);
    this.#wake();
  }

  async *[Symbol.asyncIterator]() {
    for (;;) {
      while (this.#events.length === 0) await new Promise((resolve) => (this.#wake = resolve));
      const event = this.#events.shift();
      if (event === undefined) return;
      if (event instanceof Error) throw event;
      yield event;
    }
  }
}

const registry = {
  find(provider, id) {
    if (provider === "broken") throw new Error("the registry is broken");
    return pi.models.find((model) => model.provider === provider && model.id === id);
  },
  hasConfiguredAuth: (model) => pi.logins.includes(model.provider),
  getApiKeyAndHeaders: async () => pi.secrets,
  streamSimple(model, context, { signal, ...options }) {
    const stream = new Stream();
    streams.push({ stream, signal, context, options });
    return stream;
  },
};

const lending = new Streams(registry, (frame) => sent.push(frame));
const led = [];
for (const step of steps) {
  const { stream } = streams.at(-1) ?? {};
  if (step.hear) lending.hear(step.hear);
  if (step.event) stream.push(step.event);
  if (step.close) stream.push(undefined);
  if (step.break) stream.push(new Error(step.break));
  if (step.leave) lending.end();
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  led.push(sent.splice(0));
}
const asked = streams.map(({ signal, context, options }) => ({ isAborted: signal.aborted, context, options }));
process.stdout.write(JSON.stringify({ led, asked }), () => process.exit(0));
