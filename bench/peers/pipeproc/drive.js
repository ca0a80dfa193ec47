// Drives PipeProc for the benchmark: a JSON command per line comes in on stdin, and one line
// of JSON goes out for each. `spawn` starts a node with a store on disk; a second driver may
// `connect` to the same namespace. Bodies are read from the file named by the first argument.
"use strict";

const fs = require("fs");
const readline = require("readline");
const { PipeProc } = require("pipeproc");

const bodies = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
const client = PipeProc();
const now = () => Number(process.hrtime.bigint()); // CLOCK_MONOTONIC, as in the other processes
const say = (value) => process.stdout.write(JSON.stringify(value) + "\n");

let turn = 0;
function entries(topic, size) {
    const places = Math.floor(bodies.length / size);
    const start = (turn++ % places) * size;
    return bodies.slice(start, start + size).map((body) => ({ topic, body }));
}

// Calls `once` until the time is over; it returns how many records it did.
async function rate(seconds, once) {
    await once();
    const start = now();
    let done = 0;
    while (now() - start < seconds * 1e9) done += await once();
    return { rate: done / ((now() - start) / 1e9) };
}

const commands = {
    async spawn({ namespace, location }) {
        await client.spawn({ namespace, location, memory: false, workers: 0 });
        return { node: process.version, pid: client.pipeProcNode.child.pid };
    },
    async connect({ namespace }) {
        await client.connect({ namespace });
        return {};
    },
    async commit({ topic, size, seconds }) {
        return rate(seconds, async () => {
            const some = entries(topic, size);
            await client.commit(size === 1 ? some[0] : some);
            return size;
        });
    },
    async callers({ topic, callers, seconds }) {
        const one = () => client.commit(entries(topic, 1)[0]);
        await one();
        const start = now();
        let done = 0;
        await Promise.all(Array.from({ length: callers }, async () => {
            while (now() - start < seconds * 1e9) {
                await one();
                done += 1;
            }
        }));
        return { rate: done / ((now() - start) / 1e9) };
    },
    async fill({ topic, count }) {
        for (let done = 0; done < count; done += 1000) await client.commit(entries(topic, 1000));
        return {};
    },
    async range({ topic, size, seconds }) {
        let options = { limit: size };
        return rate(seconds, async () => {
            const found = await client.range(topic, options);
            options = found.length < size
                ? { limit: size }
                : { limit: size, start: found[found.length - 1].id, exclusive: true };
            return found.length;
        });
    },
    async send({ topic, warm }) {
        await client.commit({ topic, body: { sent: now(), warm } });
        return {};
    },
    async live({ topic }) {
        client.liveProc({ topic, mode: "live", count: 1 }).changes(function (error, log, next) {
            const received = now();
            if (error) return next();
            if (log) say({ latency: received - log.body.sent, warm: log.body.warm });
            this.ack().then(next, next);
        });
        return {};
    },
    async stop() {
        await client.shutdown();
        return {};
    },
};

(async () => {
    for await (const line of readline.createInterface({ input: process.stdin })) {
        const command = JSON.parse(line);
        try {
            say(await commands[command.do](command));
        } catch (error) {
            say({ error: String(error && error.message || error) });
        }
        if (command.do === "stop") break;
    }
    process.exit(0);
})();
