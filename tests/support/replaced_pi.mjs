// Plays a Pi whose session is replaced while the extension still attaches: prints what the extension
// did with it afterwards. Arguments: the extension, and the folder of Pi's own packages.
import { registerHooks } from "node:module";
import { pathToFileURL } from "node:url";

const [extension, packages] = process.argv.slice(2);
registerHooks({
  resolve(specifier, context, next) {
    const [scope, name] = specifier.split("/");
    if (scope !== "@earendil-works") return next(specifier, context);
    return next(pathToFileURL(`${packages}/${name}/dist/index.js`).href, context);
  },
});

const handlers = {};
const after = [];
let isStale = false;
let completions;

function guarded(name, value) {
  if (isStale) {
    after.push(name);
    throw new Error("This extension ctx is stale");
  }
  return value;
}

const pi = {
  on: (event, handler) => (handlers[event] = handler),
  registerTool: () => guarded("registerTool"),
  registerCommand: (_name, command) => (completions = command.getArgumentCompletions),
};
const ctx = {
  cwd: process.cwd(),
  mode: "tui",
  get hasUI() {
    return guarded("hasUI", true);
  },
  get ui() {
    return guarded("ui", { notify: () => {}, setStatus: () => {}, setWidget: () => {} });
  },
  get model() {
    return guarded("model");
  },
  get sessionManager() {
    return guarded("sessionManager", { getSessionId: () => "s1", getSessionFile: () => undefined, getEntries: () => [], getBranch: () => [] });
  },
  get modelRegistry() {
    return guarded("modelRegistry", {});
  },
  isIdle: () => guarded("isIdle", true),
  isProjectTrusted: () => guarded("isProjectTrusted", false),
};

(await import(pathToFileURL(extension).href)).default(pi);
const starting = handlers.session_start({ type: "session_start", reason: "startup" }, ctx);
isStale = true;
await handlers.session_shutdown({ type: "session_shutdown", reason: "new" });
let thrown = null;
try {
  await starting;
} catch (error) {
  thrown = String(error);
}
const offered = (typed) => completions(typed).map((each) => each.value);
console.log(JSON.stringify({ after, thrown, partly: offered("ru"), whole: offered("runs") }));
