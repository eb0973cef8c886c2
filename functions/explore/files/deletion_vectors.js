// Decode deletion vectors: the positions of a file's deleted rows.
// Delta protocol, "Deletion Vector Format": a 64-bit Roaring bitmap in the portable format.

const MAGIC = 1681511377;
const ARRAY_MOST = 4096; // values of a container; with more it is a bitmap
const NO_OFFSETS_BELOW = 4; // containers, where a bitmap with runs leaves the offsets out
const Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

/**
 * Return the deleted positions in ascending order.
 * @param {{storageType: string, pathOrInlineDv: string, offset?: number, sizeInBytes: number, cardinality: number}} vector
 * @param {(url: string, start: number, end: number) => Promise<ArrayBuffer>} read
 * @returns {Promise<number[]>}
 */
export async function deletedRows(vector, read) {
  let bytes;
  if (vector.storageType === "i") {
    bytes = fromZ85(vector.pathOrInlineDv).subarray(0, vector.sizeInBytes);
  } else if (vector.storageType === "p") {
    const start = vector.offset ?? 1;
    const framed = new DataView(await read(vector.pathOrInlineDv, start, start + 8 + vector.sizeInBytes));
    bytes = new Uint8Array(framed.buffer, framed.byteOffset + 4, vector.sizeInBytes);
    if (framed.getInt32(0) !== vector.sizeInBytes || framed.getUint32(4 + vector.sizeInBytes) !== crc32(bytes)) {
      throw new Error("The length or checksum of a deletion vector is wrong; its rows are not shown.");
    }
  } else {
    throw new Error("This page does not support this type of deletion vector; its rows are not shown.");
  }
  const positions = decode(new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength));
  if (positions.length !== vector.cardinality) {
    throw new Error("A deletion vector has a different number of rows from the table's log; its rows are not shown.");
  }
  return positions;
}

/** @param {DataView} view @returns {number[]} */
function decode(view) {
  if (view.getInt32(0, true) !== MAGIC) throw new Error("A deletion vector has an invalid header; its rows are not shown.");
  const bitmaps = Number(view.getBigInt64(4, true));
  const positions = [];
  let at = 12;
  for (let number = 0; number < bitmaps; number++) {
    const high = view.getUint32(at, true) * 2 ** 32;
    at = decode32(view, at + 4, high, positions);
  }
  return positions;
}

/** Append the values of one 32-bit bitmap, and return its end. */
function decode32(view, begin, high, positions) {
  let at = begin;
  const cookie = view.getUint32(at, true);
  at += 4;
  const hasRuns = (cookie & 0xffff) === 12347;
  if (!hasRuns && cookie !== 12346) throw new Error("A deletion vector has no Roaring bitmap; its rows are not shown.");
  let containers = (cookie >>> 16) + 1;
  if (!hasRuns) {
    containers = view.getUint32(at, true);
    at += 4;
  }
  const runs = at;
  if (hasRuns) at += (containers + 7) >> 3;
  const heads = at;
  at += containers * 4;
  if (!hasRuns || containers >= NO_OFFSETS_BELOW) at += containers * 4;
  for (let number = 0; number < containers; number++) {
    const base = high + view.getUint16(heads + number * 4, true) * 65536;
    const count = view.getUint16(heads + number * 4 + 2, true) + 1;
    if (hasRuns && view.getUint8(runs + (number >> 3)) & (1 << (number & 7))) {
      const pairs = view.getUint16(at, true);
      at += 2;
      for (let pair = 0; pair < pairs; pair++, at += 4) {
        const first = base + view.getUint16(at, true);
        for (let step = view.getUint16(at + 2, true), value = first; value <= first + step; value++) positions.push(value);
      }
    } else if (count <= ARRAY_MOST) {
      for (let value = 0; value < count; value++, at += 2) positions.push(base + view.getUint16(at, true));
    } else {
      for (let byte = 0; byte < 8192; byte++, at++) {
        for (let bits = view.getUint8(at), bit = 0; bits >> bit; bit++) {
          if ((bits >> bit) & 1) positions.push(base + byte * 8 + bit);
        }
      }
    }
  }
  return at;
}

/** @param {string} text @returns {Uint8Array} */
function fromZ85(text) {
  const bytes = new DataView(new ArrayBuffer((text.length / 5) * 4));
  for (let group = 0; group * 5 < text.length; group++) {
    let word = 0;
    for (const letter of text.slice(group * 5, group * 5 + 5)) word = word * 85 + Z85.indexOf(letter);
    bytes.setUint32(group * 4, word);
  }
  return new Uint8Array(bytes.buffer);
}

/** @param {Uint8Array} bytes */
function crc32(bytes) {
  let crc = ~0;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}
