// The same on fairlane, over its HTTP API: Node.js 18 or newer and nothing else.
//
//     fairlane server &
//     node examples/moving_over/bullmq/after.mjs
//
// FAIRLANE_SERVER and FAIRLANE_TOKEN as for examples/worker.mjs, which is a worker with all that one needs.

const server = process.env.FAIRLANE_SERVER ?? "http://127.0.0.1:8440";
const headers = { "content-type": "application/json" };
if (process.env.FAIRLANE_TOKEN) headers.authorization = `Bearer ${process.env.FAIRLANE_TOKEN}`;

async function call(method, path, body) {
  const response = await fetch(server + path, { method, headers, body: body && JSON.stringify(body) });
  const answer = response.status === 204 ? null : await response.json();
  if (!response.ok) throw new Error(answer.detail);
  return answer;
}

const tasks = {
  receipt: async ({ order, to }) => `receipt ${order}: sent to ${to}`,
  charge: async ({ order }, job) => {
    if (job.attempt < 3) throw new Error("the bank is away");
    return `charge ${order}: paid at run ${job.attempt}`;
  },
  remind: async ({ to }) => `reminder: sent to ${to}`,
};

const add = (task, args, options) => call("POST", "/v1/jobs", { task, args, queue: "shop", ...options });
const jobs = [
  await add("receipt", { order: 1, to: "ann" }),
  await add("receipt", { order: 2, to: "ben" }),
  await add("charge", { order: 7 }, { tier: "critical" }),
  await add("remind", { to: "ann" }, { tier: "background", delay: 0.3, dedup_key: "reminder" }),
];
const again = await add("remind", { to: "ann" }, { dedup_key: "reminder" });

async function work(lease) {
  const { id, fence } = lease;
  try {
    const result = await tasks[lease.task](lease.args, lease);
    await call("POST", `/v1/leases/${id}/ack`, { fence, result });
  } catch (error) {
    await call("POST", `/v1/leases/${id}/nack`, { fence, error: error.message, retry_in: 0.1 });
  }
}

let left = jobs.length;
while (left > 0) {
  const { items } = await call("POST", "/v1/leases", { queues: ["shop"], max: 4, lease: 30, wait: 1 });
  await Promise.all(items.map(work));
  const states = await Promise.all(jobs.map((job) => call("GET", `/v1/jobs/${job.id}`)));
  left = states.filter((job) => job.state !== "completed").length;
}
for (const job of jobs) console.log((await call("GET", `/v1/jobs/${job.id}`)).result);
console.log(again.id === jobs[3].id ? "a second reminder: not stored" : "a second reminder: stored");
