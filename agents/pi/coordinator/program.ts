// Finds the pinata that this extension came with.
import { accessSync, constants } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const OVERRIDE = "PINATA_PROGRAM";

// An installed pinata lies below the environment whose `bin` folder holds its command, and so does a
// checkout with an environment of its own. What is on PATH may be another version.
export function findProgram(environment: NodeJS.ProcessEnv, from = import.meta.url): string {
  const stated = environment[OVERRIDE];
  if (stated) return stated;
  let folder = dirname(fileURLToPath(from));
  for (;;) {
    for (const place of ["bin/pinata", ".venv/bin/pinata"]) {
      const path = join(folder, place);
      if (isProgram(path)) return path;
    }
    const parent = dirname(folder);
    if (parent === folder) return "pinata";
    folder = parent;
  }
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
