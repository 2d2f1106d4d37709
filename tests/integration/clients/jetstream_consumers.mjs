// Runs nats.js's consumers, buckets and object stores against the server given as argument; prints JSON lines.
import { AckPolicy, DeliverPolicy, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { Kvm } from "@nats-io/kv";
import { Objm } from "@nats-io/obj";
import { connect } from "@nats-io/transport-node";
import { printOutcomes } from "./outcomes.mjs";

const connection = await connect({ servers: process.argv[2] });
const manager = await jetstreamManager(connection);
const client = jetstream(connection);
const text = new TextDecoder();

const listed = async (lister) => {
  const all = [];
  for await (const item of lister) all.push(item);
  return all;
};
const take = async (messages, number, each = async () => {}) => {
  const all = [];
  for await (const one of messages) {
    all.push([one.subject, one.seq, one.string(), one.info.deliveryCount, one.info.pending]);
    await each(one);
    if (all.length === number) break;
  }
  return all;
};
const entry = (one) => one && [one.bucket, one.key, text.decode(one.value), one.revision, one.delta, one.operation];
const watched = async (watcher, number) => {
  const all = [];
  for await (const one of watcher) {
    all.push([one.key, text.decode(one.value), one.revision, one.operation]);
    if (all.length === number) break;
  }
  return all;
};
const known = (info) => [info.name, info.num_pending, info.num_ack_pending, info.ack_floor.stream_seq];
const large = new Uint8Array(3 * 1024 * 1024).map((_, place) => place % 251);

await manager.streams.add({ name: "C", subjects: ["c.>"], allow_direct: true });
for (let n = 1; n <= 10; n++) await client.publish(`c.${n % 2}`, `m${n}`);
await manager.consumers.add("C", { durable_name: "work", ack_policy: AckPolicy.Explicit });
const work = await client.consumers.get("C", "work");
const kv = await new Kvm(client).create("JS", { history: 3 });
const store = await new Objm(client).create("FILES", { description: "files" });

const calls = [
  ["fetch and ack", async () => take(await work.fetch({ max_messages: 3, expires: 2000 }), 3, (m) => m.ackAck())],
  ["info", async () => known(await work.info())],
  ["nak", async () => {
    const taken = await take(await work.fetch({ max_messages: 1, expires: 2000 }), 1, async (m) => m.nak());
    await new Promise((resolve) => setTimeout(resolve, 500)); // acks and pulls wait in different queues of a server
    return taken;
  }],
  ["again", async () => take(await work.fetch({ max_messages: 1, expires: 2000 }), 1, (m) => m.ackAck())],
  ["next", async () => {
    const one = await work.next({ expires: 2000 });
    one.term("not wanted");
    return [one.subject, one.seq, one.string()];
  }],
  ["consume", async () => take(await work.consume({ max_messages: 10 }), 5, (m) => m.ackAck())],
  ["none left", async () => await work.next({ expires: 1000 })],
  ["info again", async () => known(await work.info())],
  ["ordered", async () => take(await (await client.consumers.get("C")).consume(), 10)],
  ["ordered from", async () => take(await (await client.consumers.get("C", {
    filter_subjects: ["c.1"], deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: 4 })).consume(), 3)],
  ["consumer names", async () => (await listed(manager.consumers.list("C"))).map((one) => one.name === "work")
    .filter((one) => one)],
  ["pause", async () => (await manager.consumers.pause("C", "work", new Date(4e12))).paused],
  ["resume", async () => (await manager.consumers.resume("C", "work")).paused],
  ["delete consumer", () => manager.consumers.delete("C", "work")],
  ["gone", () => manager.consumers.info("C", "work")],
  ["put", () => kv.put("a", "1")],
  ["put again", () => kv.put("a", "2")],
  ["create taken", () => kv.create("a", "3")],
  ["create", () => kv.create("b.c", "x")],
  ["update", () => kv.update("a", "3", 2)],
  ["update wrongly", () => kv.update("a", "4", 2)],
  ["get", async () => entry(await kv.get("a"))],
  ["get revision", async () => entry(await kv.get("a", { revision: 1 }))],
  ["get none", async () => entry(await kv.get("none"))],
  ["keys", async () => (await listed(await kv.keys())).sort()],
  ["keys of", async () => listed(await kv.keys("b.>"))],
  ["history", async () => (await listed(await kv.history({ key: "a" }))).map(entry)],
  ["watch", async () => watched(await kv.watch(), 2)],
  ["delete", async () => { await kv.delete("a"); return entry(await kv.get("a")); }],
  ["create deleted", () => kv.create("a", "again")],
  ["purge", async () => { await kv.purge("a"); return (await listed(await kv.history({ key: "a" }))).map(entry); }],
  ["status", async () => {
    const status = await kv.status();
    return [status.bucket, status.values, status.history, status.ttl, status.bucket_location];
  }],
  ["destroy", () => kv.destroy()],
  ["put blob", async () => {
    const info = await store.putBlob({ name: "large", description: "d" }, large);
    return [info.name, info.size, info.chunks, info.digest];
  }],
  ["get blob", async () => {
    const blob = await store.getBlob("large");
    return blob.length === large.length && blob.every((byte, place) => byte === large[place]);
  }],
  ["link", async () => { await store.link("alias", await store.info("large")); return (await store.getBlob("alias")).length; }],
  ["list", async () => (await store.list()).map((one) => [one.name, one.size]).sort()],
  ["blob gone", async () => { await store.delete("large"); return await store.getBlob("large"); }],
  ["seal", async () => (await store.seal()).config.sealed],
  ["put sealed", () => store.putBlob({ name: "late" }, new Uint8Array(1))],
];

await printOutcomes(calls);
await connection.close();
