// What the page under /explore takes of others, in one file: a Parquet reader, a writer and the codecs, all of them plain JavaScript.
// hysnappy is left out: it is WebAssembly, which the page's Content-Security-Policy does not let in.

import { parquetMetadataAsync, parquetRead } from "hyparquet";
import { ByteWriter, ParquetWriter } from "hyparquet-writer";
import { decompress as decompressZstd } from "fzstd";
import { decompressBrotli } from "hyparquet-compressors/src/brotli.js";
import { gunzip } from "hyparquet-compressors/src/gzip.js";
import { decompressLz4, decompressLz4Raw } from "hyparquet-compressors/src/lz4.js";

/** The codecs of Parquet, but for Snappy, which the reader has itself. */
export const decompressors = {
  GZIP: (input, length) => gunzip(input, new Uint8Array(length)),
  BROTLI: decompressBrotli,
  ZSTD: (input) => decompressZstd(input),
  LZ4: decompressLz4,
  LZ4_RAW: decompressLz4Raw,
};
export { ByteWriter, ParquetWriter, parquetMetadataAsync, parquetRead };
