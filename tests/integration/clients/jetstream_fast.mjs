// Publishes fast batches with nats.js, alone and as its object store does, to the server given as argument; prints JSON lines.
import { jetstreamManager, jetstream } from "@nats-io/jetstream";
import { startFastIngest } from "@nats-io/jetstream/internal";
import { Objm } from "@nats-io/obj";
import { connect } from "@nats-io/transport-node";
import { printOutcomes } from "./outcomes.mjs";

const connection = await connect({ servers: process.argv[2] });
const client = jetstream(connection);
const manager = await jetstreamManager(connection);
const objm = new Objm(client);
const options = { ackInterval: 20, maxOutstandingAcks: 2, inboxPrefix: "_INBOX.fast", allowGaps: false };
const large = new Uint8Array(8 * 1024 * 1024).map((_, place) => (place * 7 + (place >> 12)) % 251);

const ended = ({ stream, seq, count, duplicate }) => [stream, seq, count, duplicate];
const begun = (subject, more = {}) => startFastIngest(connection, subject, "1", { ...options, ...more });
const filled = async (batch, subject, number) => {
  let last;
  for (let place = 2; place <= number; place++) last = await batch.add(subject, `${place}`);
  return last.batchSeq;
};
let batch, store;

const calls = [
  ["api level", () => connection.info.api_lvl >= 4],
  ["stream", async () => {
    const { config } = await manager.streams.add({ name: "FAST", subjects: ["fast.>"], allow_batched: true, allow_direct: true });
    return config.allow_batched;
  }],
  ["batch with a last message", async () => {
    batch = await begun("fast.a");
    const sent = await filled(batch, "fast.a", 1500);
    return [sent, ended(await batch.last("fast.b", "end")), ended(await batch.done())];
  }],
  ["batch with an end", async () => {
    batch = await begun("fast.a");
    await filled(batch, "fast.a", 130);
    const { ackSeq, batchSeq } = await batch.ping();
    return [ackSeq, batchSeq, ended(await batch.end())];
  }],
  ["add after the end", () => batch.add("fast.a", "x")],
  ["two at once", async () => {
    const both = await Promise.all([begun("fast.c"), begun("fast.d")]);
    await Promise.all(both.map((one, place) => filled(one, `fast.${place}`, 300)));
    return (await Promise.all(both.map((one) => one.end()))).map(({ count }) => count);
  }],
  ["all of them", async () => (await manager.streams.info("FAST")).state.messages],
  ["the last of the first", async () => (await manager.direct.getMessage("FAST", { last_by_subj: "fast.b" })).seq],
  ["no batches there", async () => {
    await manager.streams.add({ name: "SLOW", subjects: ["slow.>"] });
    return begun("slow.a");
  }],
  ["object store", async () => {
    store = await objm.create("FASTOBJ", { allowBatched: true });
    return (await manager.streams.info("OBJ_FASTOBJ")).config;
  }],
  ["put", async () => {
    const { name, size, chunks, digest } = await store.putBlob({ name: "large", options: { max_chunk_size: 16384 } }, large);
    return [name, size, chunks, digest];
  }],
  ["put at wrong", () => store.putBlob({ name: "large" }, large.slice(0, 300_000), { previousRevision: 1 })],
  ["get", async () => Buffer.compare(Buffer.from(await store.getBlob("large")), Buffer.from(large))],
  ["put again", async () => (await store.putBlob({ name: "large" }, large.slice(0, 300_000))).chunks],
  ["what is left", async () => (await manager.streams.info("OBJ_FASTOBJ")).state.messages],
];

await printOutcomes(calls);
await connection.close();
