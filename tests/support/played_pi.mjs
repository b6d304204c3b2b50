// Plays the Pi around `streams.ts`: takes scenes from stdin, and tells what each step of them led to.
//
// {pi: {models, logins, secrets}, scenes: [[...]]}, where a step is one of
//   {hear: frame}      the host says something
//   {event: {...}}     the model of the newest stream does; `times` over
//   {close: true}      its stream ends as no stream should
//   {break: "words"}   its stream breaks
//   {leave: true}      the way to the host is gone
import { readFileSync } from "node:fs";

const { Streams } = await import(process.argv[2]);
const { pi, scenes } = JSON.parse(readFileSync(0, "utf8"));

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

async function play(steps) {
  const sent = [];
  const streams = [];
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
    for (let left = step.times ?? 1; step.event && left > 0; left -= 1) stream.push(step.event);
    if (step.close) stream.push(undefined);
    if (step.break) stream.push(new Error(step.break));
    if (step.leave) lending.end();
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    led.push(sent.splice(0));
  }
  const asked = streams.map(({ signal, context, options }) => ({
    isAborted: signal.aborted,
    context,
    options,
  }));
  return { led, asked };
}

const played = [];
for (const steps of scenes) played.push(await play(steps));
process.stdout.write(JSON.stringify(played), () => process.exit(0));
