// What the session's file really holds. Pi's memory is no proof of it: on a full disk an entry may be
// written by half, and what is written next is glued to that, so that whoever reads the file finds
// neither.
import { closeSync, fstatSync, fsyncSync, openSync, readSync } from "node:fs";
import type { ExtensionContext } from "@earendil-works/pi-coding-agent";

const LINE_END = 10;
const PIECE_BYTES = 1 << 20;
// What a line must hold to be one of ours, as Pi writes it: all others are not looked into.
const OURS = ['"customType":"pinata-', '"deliveries":['];

export class Saved {
  readonly #ctx: ExtensionContext;
  readonly #ids = new Set<string>();
  // The file that was read, how far, and what followed its last whole line.
  #inode = -1;
  #readBytes = 0;
  #rest = Buffer.alloc(0);

  constructor(ctx: ExtensionContext) {
    this.#ctx = ctx;
  }

  // Returns which entries of ours the file holds for good, by their ids; undefined for a session that
  // keeps no file, and so holds what it holds.
  ids(): ReadonlySet<string> | undefined {
    const file = this.#ctx.sessionManager.getSessionFile();
    if (file === undefined) return undefined;
    try {
      this.#readOn(file);
    } catch {
      // Pi makes the file with the first message of a conversation. What was found cannot be relied
      // on where it cannot be read now.
      this.#begin(-1);
    }
    return this.#ids;
  }

  #begin(inode: number): void {
    this.#inode = inode;
    this.#readBytes = 0;
    this.#rest = Buffer.alloc(0);
    this.#ids.clear();
  }

  #readOn(file: string): void {
    const opened = openSync(file, "r");
    try {
      const { ino, size } = fstatSync(opened);
      if (ino !== this.#inode || size < this.#readBytes) this.#begin(ino);
      const found = this.#found(opened, size);
      if (found.length === 0) return;
      // Whoever sent it forgets it then, for good: so the machine may lose power as well.
      fsyncSync(opened);
      for (const id of found) this.#ids.add(id);
    } finally {
      closeSync(opened);
    }
  }

  // Returns the ids in the whole lines that came since the last time.
  #found(opened: number, size: number): string[] {
    const ids: string[] = [];
    while (this.#readBytes < size) {
      const piece = Buffer.alloc(Math.min(PIECE_BYTES, size - this.#readBytes));
      const count = readSync(opened, piece, 0, piece.length, this.#readBytes);
      if (count === 0) break;
      this.#readBytes += count;
      let rest = Buffer.concat([this.#rest, piece.subarray(0, count)]);
      for (let end = rest.indexOf(LINE_END); end >= 0; end = rest.indexOf(LINE_END)) {
        ids.push(...idsIn(rest.subarray(0, end)));
        rest = rest.subarray(end + 1);
      }
      this.#rest = rest;
    }
    return ids;
  }
}

function idsIn(line: Buffer): string[] {
  if (!OURS.some((mark) => line.includes(mark))) return [];
  try {
    const id = (JSON.parse(line.toString("utf8")) as { id?: unknown }).id;
    return typeof id === "string" ? [id] : [];
  } catch {
    return [];
  }
}
