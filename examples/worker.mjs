// A fairlane worker in JavaScript, over HTTP alone: Node.js 18 or newer and nothing else.
//
//     fairlane server &
//     node examples/worker.mjs
//
// FAIRLANE_SERVER  where the server is (default http://127.0.0.1:8440)
// FAIRLANE_TOKEN   an operator's token, when the server asks for one
// UNTIL_IDLE=1     end when nothing is left to do, instead of waiting for more

const server = process.env.FAIRLANE_SERVER ?? "http://127.0.0.1:8440";
const token = process.env.FAIRLANE_TOKEN;
const leaseSeconds = 30;

// What this worker can do, by the names that jobs carry.
const tasks = {
  "text.shout": async ({ text }) => text.toUpperCase(),
  "text.count": async ({ text }, job) => {
    const counts = job.checkpoint ?? {};
    for (const letter of text) counts[letter] = (counts[letter] ?? 0) + 1;
    await job.save({ checkpoint: counts, progress: 1 });
    return counts;
  },
  "text.fail": async () => {
    throw new Error("this one always fails");
  },
};

async function call(path, body, { signal } = {}) {
  const headers = { "content-type": "application/json" };
  if (token) headers.authorization = `Bearer ${token}`;
  const response = await fetch(server + path, { method: "POST", headers, body: JSON.stringify(body), signal });
  const text = await response.text();
  if (!response.ok) {
    const problem = text ? JSON.parse(text) : {};
    throw Object.assign(new Error(problem.detail ?? response.statusText), { code: problem.code });
  }
  return text ? JSON.parse(text) : null;
}

async function run(lease) {
  const { id, fence, args } = lease;
  const path = `/v1/leases/${id}`;
  const stopping = new AbortController();
  // Nobody else renews the lease: send a sign of life at a third of it, and stop when it is lost.
  const beat = setInterval(async () => {
    try {
      const { asked } = await call(`${path}/heartbeat`, { fence, lease: leaseSeconds });
      if (asked) stopping.abort(asked);
    } catch (error) {
      if (error.code === "lease-lost") stopping.abort("lost");
    }
  }, (leaseSeconds * 1000) / 3);
  const job = { ...lease, signal: stopping.signal, save: (what) => call(`${path}/save`, { fence, ...what }) };
  try {
    const result = await tasks[lease.task](args, job);
    await call(`${path}/ack`, { fence, result: result ?? null });
    console.log(`${id} ${lease.task} done`);
  } catch (error) {
    if (error.code === "lease-lost") return; // somebody else has the job by now: write nothing more
    if (stopping.signal.reason === "cancel") {
      await call(`${path}/ack`, { fence, outcome: "cancelled" });
    } else if (stopping.signal.reason === "preempt") {
      await call(`${path}/nack`, { fence, outcome: "released", preempted: true });
    } else {
      await call(`${path}/nack`, { fence, error: String(error) });
      console.log(`${id} ${lease.task} failed: ${error.message}`);
    }
  } finally {
    clearInterval(beat);
  }
}

const leaving = new AbortController();
for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => leaving.abort());

while (!leaving.signal.aborted) {
  try {
    const wait = process.env.UNTIL_IDLE ? 0 : 20; // a long poll: the answer comes when there is a job
    const asked = { tasks: Object.keys(tasks), lease: leaseSeconds, wait };
    const { items } = await call("/v1/leases", asked, { signal: leaving.signal });
    for (const lease of items) await run(lease);
    if (items.length === 0 && process.env.UNTIL_IDLE) break;
  } catch (error) {
    if (leaving.signal.aborted) break;
    console.error(`the server does not answer: ${error.message}`);
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}
