// node bullmq.mjs setup|produce|work SCENARIO SLOTS: a producer answers requests a line as agent.py does.
import readline from 'node:readline';
import { Queue, Worker } from 'bullmq';
import { job, now } from './joblog.mjs';

const [role, scenario, slots] = process.argv.slice(2);
const at = new URL(process.env.COMPARE_REDIS);
const connection = { host: at.hostname, port: Number(at.port), maxRetriesPerRequest: null };
const PRIORITY = [1, 50, 200];
const tiered = ['flood', 'starve'].includes(scenario);
const options = (tier) => ({ removeOnComplete: true, ...(tiered ? { priority: PRIORITY[tier] } : {}) });

// A job carries the instant just before it is given to the queue, in text: it is beyond what a number holds exactly.
const data = (batch, number) => [batch.kind, number, String(now()), batch.sleep_ms];

async function each(batch, callers, seconds, one) {
  const end = seconds ? performance.now() + seconds * 1000 : Infinity;
  let next = batch.first;
  let done = 0;
  const caller = async () => {
    while (next < batch.first + batch.count) {
      await one(next++);
      done++;
      if (performance.now() > end) break;
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
  return done;
}

function producer(queue) {
  const one = (batch) => (number) => queue.add('job', data(batch, number), options(batch.tier));
  return {
    one_by_one: (batch, { seconds }) => each(batch, 1, seconds, one(batch)),
    together: (batch, { callers, seconds }) => each(batch, callers, seconds, one(batch)),
    async many(batch, { portion = 1000 }) {
      for (let first = batch.first; first < batch.first + batch.count; first += portion) {
        const count = Math.min(portion, batch.first + batch.count - first);
        const jobs = Array.from({ length: count }, (_, i) => ({
          name: 'job', data: data(batch, first + i), opts: options(batch.tier),
        }));
        await queue.addBulk(jobs);
      }
      return batch.count;
    },
    async paced(batch, { least_ms, most_ms }) {
      let due = performance.now();
      for (let number = batch.first; number < batch.first + batch.count; number++) {
        await one(batch)(number);
        due += least_ms + Math.random() * (most_ms - least_ms);
        await new Promise((resolve) => setTimeout(resolve, Math.max(0, due - performance.now())));
      }
      return batch.count;
    },
  };
}

if (role === 'produce') {
  const ops = producer(new Queue('q', { connection }));
  process.stdout.write('{}\n');
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { op, batch, ...asked } = JSON.parse(line);
    const began = now();
    const jobs = await ops[op](batch, asked);
    process.stdout.write(`${JSON.stringify({ jobs, ns: Number(now() - began) })}\n`);
  }
  process.exit(0);
} else if (role === 'work') {
  const tuned = scenario === 'crash-tuned' ? { lockDuration: 5000, stalledInterval: 1000 } : {};
  const worker = new Worker('q', (one) => job(...one.data), { connection, concurrency: Number(slots), ...tuned });
  worker.on('error', (error) => console.error(error.message));
}
