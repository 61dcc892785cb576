// The log of job events, as joblog.py writes it.
import fs from 'node:fs';
import path from 'node:path';

const START = 1;
const END = 2;
let file = null;

export const now = () => process.hrtime.bigint();

function write(event, kind, number, enqueued) {
  file ??= fs.openSync(path.join(process.env.COMPARE_LOG, `${process.pid}.log`), 'a');
  const record = Buffer.alloc(24);
  record.writeUInt8(event, 0);
  record.writeUInt8(kind, 1);
  record.writeUInt32LE(number, 4);
  record.writeBigInt64LE(BigInt(enqueued), 8);
  record.writeBigInt64LE(now(), 16);
  fs.writeSync(file, record);
}

export async function job(kind, number, enqueued, sleepMs) {
  if (sleepMs) {
    write(START, kind, number, enqueued);
    await new Promise((resolve) => setTimeout(resolve, sleepMs));
  }
  write(END, kind, number, enqueued);
}
