// Runs what nats.js's buckets and object stores have of options against the server given as argument; prints JSON lines.
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { Kvm, KvWatchInclude } from "@nats-io/kv";
import { Objm } from "@nats-io/obj";
import { connect, delay, headers } from "@nats-io/transport-node";
import { printOutcomes } from "./outcomes.mjs";

const connection = await connect({ servers: process.argv[2] });
const client = jetstream(connection);
const manager = await jetstreamManager(connection);
const kvm = new Kvm(client);
const objm = new Objm(client);
const text = new TextDecoder();

const listed = async (lister) => {
  const all = [];
  for await (const item of lister) all.push(item);
  return all;
};
const entry = (one) => one && [one.bucket, one.key, text.decode(one.value), one.revision, one.delta, one.operation];
const taken = async (watcher, number) => {
  const all = [];
  const late = setTimeout(() => watcher.stop(), 10_000);
  for await (const one of watcher) {
    all.push([one.key, text.decode(one.value), one.revision, one.operation, one.isUpdate, one.length]);
    if (all.length === number) break;
  }
  clearTimeout(late);
  return all;
};
const object = (one) => one && [
  one.name, one.description, one.size, one.chunks, one.digest, one.deleted, one.options, one.metadata, one.revision,
  one.headers ? [...one.headers] : null,
];
const seen = async (watcher, number) => {
  const all = [];
  const late = setTimeout(() => watcher.stop(), 10_000);
  for await (const one of watcher) {
    all.push([one.name, one.size, one.deleted, one.isUpdate]);
    if (all.length === number) break;
  }
  clearTimeout(late);
  return all;
};
const status = async (bucket) => {
  const found = await bucket.status();
  const known = ["bucket", "values", "history", "ttl", "markerTTL", "description", "size", "metadata", "compression",
    "maxValueSize", "max_bytes", "republish", "storage", "replicas", "sealed"];
  return [known.map((name) => found[name] ?? null), found.streamInfo.config];
};
const eventually = async (probe, wanted) => {
  let found;
  for (let tries = 0; tries < 100; tries++) {
    found = await probe();
    if (JSON.stringify(found) === JSON.stringify(wanted)) break;
    await delay(100);
  }
  return found;
};
const counted = (stream, number) => eventually(async () => (await manager.streams.info(stream)).state.messages, number);
const large = new Uint8Array(64 * 1024 * 1024).map((_, place) => (place * 7 + (place >> 12)) % 251);

const republished = [];
connection.subscribe("copy.>", {
  callback: (_, message) => republished.push([
    message.subject, message.string(), message.headers?.get("Nats-Sequence"), message.headers?.get("Nats-Last-Sequence"),
    message.headers?.get("Nats-Stream"), message.headers?.get("Nats-Subject"),
  ]),
});
await connection.flush();

const kv = await kvm.create("FROM", {
  history: 4, description: "origin", metadata: { owner: "me" }, maxValueSize: 1000, max_bytes: 1 << 20,
  compression: true, republish: { src: "$KV.FROM.>", dest: "copy.>" },
});
let timed, gathered, files, other;

const calls = [
  ["status", () => status(kv)],
  ["put first", () => kv.put("a.1", "one")],
  ["put", () => kv.put("a.1", "two")],
  ["put other", () => kv.put("b", "three")],
  ["too large", () => kv.put("b", "x".repeat(2000))],
  ["put at", () => kv.put("a.1", "four", { previousSeq: 2 })],
  ["put at wrong", () => kv.put("a.1", "five", { previousSeq: 2 })],
  ["delete at wrong", () => kv.delete("b", { previousSeq: 1 })],
  ["delete at", () => kv.delete("b", { previousSeq: 3 })],
  ["purge at wrong", () => kv.purge("a.1", { previousSeq: 1 })],
  ["bad key", () => kv.put(".b", "x")],
  ["get older", async () => entry(await kv.get("a.1", { revision: 1 }))],
  ["get wrong revision", async () => entry(await kv.get("a.1", { revision: 3 }))],
  ["watch all", async () => taken(await kv.watch(), 2)],
  ["watch history", async () => taken(await kv.watch({ include: KvWatchInclude.AllHistory }), 5)],
  ["watch a key", async () => taken(await kv.watch({ key: "a.*" }), 1)],
  ["watch keys", async () => taken(await kv.watch({ key: ["a.1", "b"], include: KvWatchInclude.AllHistory }), 5)],
  ["watch without deletes", async () => taken(await kv.watch({ ignoreDeletes: true }), 1)],
  ["watch headers", async () => taken(await kv.watch({ headers_only: true }), 2)],
  ["watch from", async () => taken(await kv.watch({ resumeFromRevision: 4 }), 2)],
  ["watch from nowhere", async () => {
    const watcher = await kv.watch({ resumeFromRevision: 100 });
    setTimeout(() => watcher.stop(), 500);
    return taken(watcher, 1);
  }],
  ["watch updates", async () => {
    const all = taken(await kv.watch({ include: KvWatchInclude.UpdatesOnly }), 3);
    await kv.put("new", "1");
    await kv.delete("new");
    await kv.purge("a.1");
    return all;
  }],
  ["history of all", async () => (await listed(await kv.history())).map(entry)],
  ["history of keys", async () => (await listed(await kv.history({ key: ["b", "new"] }))).map(entry)],
  ["keys of several", async () => listed(await kv.keys(["a.>", "b"]))],
  ["no keys", async () => listed(await kv.keys("nothing.>"))],
  ["republished", () => republished],

  ["create with markers", async () => {
    timed = await kvm.create("TIMED", { markerTTL: 1000, history: 3 });
    return status(timed);
  }],
  ["create for a second", async () => {
    const watcher = await timed.watch({ include: KvWatchInclude.AllHistory });
    const all = taken(watcher, 2);
    await timed.create("brief", "soon gone", "1s");
    return all;
  }],
  ["get expired", async () => entry(await timed.get("brief"))],
  ["keys after expiry", async () => listed(await timed.keys())],
  ["create again", () => timed.create("brief", "again")],
  ["purge for a second", async () => {
    await timed.put("tombstone", "x");
    await timed.purge("tombstone", { ttl: "1s" });
    const before = (await manager.streams.info("KV_TIMED")).state.num_subjects;
    return [before, await counted("KV_TIMED", 1), (await listed(await timed.keys())).sort()];
  }],
  ["limit marker", async () => {
    const brief = await kvm.create("BRIEF", { ttl: 1000, markerTTL: 5000 });
    const all = taken(await brief.watch(), 2);
    await brief.put("k", "v");
    return all;
  }],
  ["ttl where none is allowed", () => kv.create("ttl", "v", "1s")],

  ["mirror", async () => {
    await kvm.create("MIRROR", { mirror: { name: "FROM" }, history: 4 });
    return (await manager.streams.info("KV_MIRROR")).config;
  }],
  ["mirror has all", async () => counted("KV_MIRROR", (await manager.streams.info("KV_FROM")).state.messages)],
  ["put through", () => kv.put("through", "to both")],
  ["mirror has it", async () => {
    await counted("KV_MIRROR", 6);
    return (await manager.direct.getMessage("KV_MIRROR", { last_by_subj: "$KV.FROM.through" })).string();
  }],
  ["mirror takes nothing", () => client.publish("$KV.MIRROR.own", "x")],
  ["sources", async () => {
    gathered = await kvm.create("GATHERED", { sources: [{ name: "FROM" }], history: 4 });
    return (await manager.streams.info("KV_GATHERED")).config;
  }],
  ["sources have all", async () => counted("KV_GATHERED", (await manager.streams.info("KV_FROM")).state.messages)],
  ["sources get", async () => entry(await gathered.get("through"))],
  ["sources put", () => gathered.put("own", "value")],
  ["sources keys", async () => (await listed(await gathered.keys())).sort()],
  ["buckets", async () => (await listed(kvm.list())).map((one) => [one.bucket, one.values]).sort()],
  ["open missing", async () => (await kvm.open("NOSUCH")).get("x")],
  ["bind only", () => kvm.open("NOSUCH").then((one) => one.status())],
  ["create otherwise", () => kvm.create("FROM", { history: 9 }).then(status)],

  ["object store", async () => {
    files = await objm.create("OF", { description: "files", metadata: { kind: "test" }, compression: true });
    return status(files);
  }],
  ["put with everything", async () => {
    const given = headers();
    given.append("color", "red");
    return object(await files.putBlob({
      name: "first", description: "d", headers: given, metadata: { m: "1" }, options: { max_chunk_size: 10 },
    }, new Uint8Array(95).fill(7)));
  }],
  ["info", async () => object(await files.info("first"))],
  ["put empty", async () => object(await files.putBlob({ name: "empty" }, new Uint8Array(0)))],
  ["get empty", async () => (await files.getBlob("empty")).length],
  ["put at", async () => object(await files.putBlob({ name: "first" }, new Uint8Array(3), { previousRevision: 11 }))],
  ["put at wrong", () => files.putBlob({ name: "first" }, new Uint8Array(3), { previousRevision: 11 })],
  ["update", async () => {
    await files.update("first", { name: "renamed", description: "new", metadata: { m: "2" } });
    return [object(await files.info("renamed")), await files.info("first")];
  }],
  ["rename onto another", () => files.update("renamed", { name: "empty" })],
  ["update missing", () => files.update("missing", { description: "x" })],
  ["link", async () => object(await files.link("link", await files.info("renamed")))],
  ["get link", async () => (await files.getBlob("link")).length],
  ["link to link", async () => files.link("link2", await files.info("link"))],
  ["link over object", async () => files.link("empty", await files.info("renamed"))],
  ["update of link", () => files.update("link", { description: "through" })],
  ["link to store", async () => {
    other = await objm.create("OTHER");
    await other.putBlob({ name: "there" }, new Uint8Array(5));
    return object(await files.linkStore("store", other));
  }],
  ["get link to store", async () => files.getBlob("store")],
  ["link across", async () => {
    await files.link("across", await other.info("there"));
    return (await files.getBlob("across")).length;
  }],
  ["watch", async () => (await seen(await files.watch({ includeHistory: true }), 5)).sort()],
  ["watch without deletes", async () => {
    await files.delete("empty");
    return (await seen(await files.watch({ includeHistory: true, ignoreDeletes: true }), 4)).sort();
  }],
  ["watch updates", async () => {
    const watcher = await files.watch({ includeHistory: false });
    const all = seen(watcher, 1);
    await delay(200);
    await files.putBlob({ name: "late" }, new Uint8Array(1));
    return (await all).sort();
  }],
  ["list", async () => (await files.list()).map(object).map((one) => one.slice(0, 4)).sort()],
  ["delete twice", async () => [await files.delete("empty"), await files.info("empty").then(object)]],
  ["delete missing", () => files.delete("missing")],
  ["get deleted", () => files.getBlob("empty")],
  ["64 MiB", async () => object(await files.putBlob({ name: "large" }, large)).slice(0, 5)],
  ["64 MiB back", async () => Buffer.compare(Buffer.from(await files.getBlob("large")), Buffer.from(large))],
  ["size", async () => [(await files.status()).size, (await manager.streams.info("OBJ_OF")).state.num_subjects]],
  ["put again", async () => object(await files.putBlob({ name: "large" }, new Uint8Array(9))).slice(0, 5)],
  ["old chunks are gone", async () => (await files.status()).size],
  ["damaged", async () => {
    await files.putBlob({ name: "damaged", options: { max_chunk_size: 4 } }, new Uint8Array(12).fill(1));
    const { nuid } = await files.info("damaged");
    await client.publish(`$O.OF.C.${nuid}`, new Uint8Array(4));
    return files.getBlob("damaged");
  }],
  ["stores", async () => (await listed(objm.list())).map((one) => one.bucket).sort()],
  ["open missing store", async () => (await objm.open("NOSUCH")).info("x")],
  ["limited", async () => {
    const small = await objm.create("SMALL", { max_bytes: 5000 });
    return small.putBlob({ name: "much" }, new Uint8Array(10_000));
  }],
  ["seal", async () => { const { streamInfo } = await files.seal(); return streamInfo.config; }],
  ["delete sealed", () => files.delete("late")],
  ["update sealed", () => files.update("late", { description: "x" })],
  ["destroy", async () => [await files.destroy(), await kv.destroy(), await timed.destroy()]],
];

await printOutcomes(calls);
await connection.close();
