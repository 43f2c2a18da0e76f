/* png.mjs - pictures for documents: a PNG of the browser (8 bits, RGB or RGBA) with a palette instead, at a quarter of the size. */

import * as zlib from "node:zlib";

const { deflateSync, inflateSync, crc32 } = zlib;

const SIGNATURE = Buffer.from("89504e470d0a1a0a", "hex");
const COLORS = 256;

function chunksOf(file) {
  const chunks = [];
  for (let at = 8; at < file.length; ) {
    const length = file.readUInt32BE(at);
    chunks.push({ type: file.toString("latin1", at + 4, at + 8), data: file.subarray(at + 8, at + 8 + length) });
    at += length + 12;
  }
  return chunks;
}

function paeth(a, b, c) {
  const p = a + b - c;
  const [pa, pb, pc] = [Math.abs(p - a), Math.abs(p - b), Math.abs(p - c)];
  return pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
}

/* The lines as they were before they were filtered. */
function unfilter(raw, height, stride, bpp) {
  const out = Buffer.alloc(height * stride);
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (stride + 1)];
    for (let x = 0; x < stride; x++) {
      const at = y * stride + x;
      const left = x >= bpp ? out[at - bpp] : 0;
      const up = y > 0 ? out[at - stride] : 0;
      const corner = x >= bpp && y > 0 ? out[at - stride - bpp] : 0;
      const guess = [0, left, up, (left + up) >> 1, paeth(left, up, corner)][filter];
      out[at] = raw[y * (stride + 1) + 1 + x] + guess;
    }
  }
  return out;
}

const distance = (a, b) => [16, 8, 0].reduce((sum, shift) => sum + (((a >> shift) & 255) - ((b >> shift) & 255)) ** 2, 0);

/* The colours that occur most often, then those that would be missed most; others get the nearest of them. */
function paletteOf(counts) {
  const rest = [...counts].sort((a, b) => b[1] - a[1]);
  const palette = rest.splice(0, (COLORS * 3) / 4).map(([color]) => color);
  const far = rest.map(([color]) => Math.min(...palette.map((other) => distance(color, other))));
  while (palette.length < COLORS && rest.length > 0) {
    let most = 0;
    for (let i = 1; i < rest.length; i++) if (far[i] * Math.sqrt(rest[i][1]) > far[most] * Math.sqrt(rest[most][1])) most = i;
    palette.push(rest[most][0]);
    for (let i = 0; i < rest.length; i++) far[i] = Math.min(far[i], distance(rest[i][0], palette.at(-1)));
  }
  const index = new Map(palette.map((color, i) => [color, i]));
  for (const [color] of rest) {
    if (index.has(color)) continue;
    let best = 0;
    for (let i = 1; i < palette.length; i++) if (distance(color, palette[i]) < distance(color, palette[best])) best = i;
    index.set(color, best);
  }
  return { palette, index };
}

function chunk(type, data) {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const out = Buffer.alloc(body.length + 8);
  out.writeUInt32BE(data.length, 0);
  body.copy(out, 4);
  out.writeUInt32BE(checksum(body), body.length + 4);
  return out;
}

/* zlib of older Node.js does not export it. */
function checksum(data) {
  if (crc32) return crc32(data);
  let crc = ~0;
  for (const byte of data) {
    crc ^= byte;
    for (let k = 0; k < 8; k++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}

export function shrink(file) {
  const chunks = chunksOf(file);
  const head = chunks[0].data;
  const [width, height, bpp] = [head.readUInt32BE(0), head.readUInt32BE(4), head[9] === 6 ? 4 : 3];
  const raw = inflateSync(Buffer.concat(chunks.filter((c) => c.type === "IDAT").map((c) => c.data)));
  const pixels = unfilter(raw, height, width * bpp, bpp);
  const counts = new Map();
  const colors = new Uint32Array(width * height);
  for (let i = 0; i < colors.length; i++) {
    colors[i] = (pixels[i * bpp] << 16) | (pixels[i * bpp + 1] << 8) | pixels[i * bpp + 2];
    counts.set(colors[i], (counts.get(colors[i]) ?? 0) + 1);
  }
  const { palette, index } = paletteOf(counts);
  const lines = Buffer.alloc(height * (width + 1));
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) lines[y * (width + 1) + 1 + x] = index.get(colors[y * width + x]);
  const newHead = Buffer.from(head);
  newHead[9] = 3; /* indices of a palette */
  const table = Buffer.from(palette.flatMap((c) => [c >> 16, (c >> 8) & 255, c & 255]));
  return Buffer.concat([SIGNATURE, chunk("IHDR", newHead), chunk("PLTE", table), chunk("IDAT", deflateSync(lines, { level: 9, memLevel: 9 })), chunk("IEND", Buffer.alloc(0))]);
}
