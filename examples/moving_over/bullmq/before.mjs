// Receipts, a payment that fails twice, a reminder for later: on BullMQ.
//
//     node examples/moving_over/bullmq/before.mjs    # needs bullmq and a Redis

import { Queue, QueueEvents, Worker } from "bullmq";

const connection = { url: process.env.REDIS_URL ?? "redis://127.0.0.1:6379" };

const tasks = {
  receipt: async ({ order, to }) => `receipt ${order}: sent to ${to}`,
  charge: async ({ order }, job) => {
    if (job.attemptsMade < 2) throw new Error("the bank is away");
    return `charge ${order}: paid at run ${job.attemptsMade + 1}`;
  },
  remind: async ({ to }) => `reminder: sent to ${to}`,
};

const queue = new Queue("shop", { connection });
const events = new QueueEvents("shop", { connection });
const worker = new Worker("shop", (job) => tasks[job.name](job.data, job), { connection, concurrency: 4 });

const jobs = [
  await queue.add("receipt", { order: 1, to: "ann" }, { priority: 50 }),
  await queue.add("receipt", { order: 2, to: "ben" }, { priority: 50 }),
  await queue.add("charge", { order: 7 }, { priority: 1, attempts: 6, backoff: { type: "fixed", delay: 100 } }),
  await queue.add("remind", { to: "ann" }, { priority: 200, delay: 300, deduplication: { id: "reminder" } }),
];
const again = await queue.add("remind", { to: "ann" }, { deduplication: { id: "reminder" } });
for (const job of jobs) console.log(await job.waitUntilFinished(events, 10_000));
console.log(again.id === jobs[3].id ? "a second reminder: not stored" : "a second reminder: stored");

await worker.close();
await events.close();
await queue.close();
