// Sets up mirrors and sources of another domain by nats.js against the hub given as argument; prints JSON lines.
import { AckPolicy, jetstream, jetstreamManager, RetentionPolicy } from "@nats-io/jetstream";
import { connect, headers, nanos } from "@nats-io/transport-node";
import { printOutcomes } from "./outcomes.mjs";

const WAIT = 90_000;
const connection = await connect({ servers: process.argv[2] });
const domain = async (name) => ({
  manager: await jetstreamManager(connection, { domain: name }),
  client: jetstream(connection, { domain: name }),
});
const hub = await domain("hub");
const silt = await domain("silt");

const listed = async (lister) => {
  const all = [];
  for await (const item of lister) all.push(item);
  return all;
};
const until = async (manager, name, holds) => {
  for (const end = Date.now() + WAIT; ; await new Promise((resolve) => setTimeout(resolve, 50))) {
    const info = await manager.streams.info(name);
    if (holds(info) || Date.now() > end) return info;
  }
};
const reaches = (manager, name, seq) => until(manager, name, (info) =>
  info.state.last_seq >= seq && [...(info.sources ?? []), info.mirror].every((one) => !one?.lag));
const read = async (get, last) => {
  const all = [];
  for (let seq = 1; seq <= last; seq++) {
    const one = await get(seq);
    all.push(one && [
      one.subject, one.seq, new TextDecoder().decode(one.data),
      one.header ? [...one.header.keys()].map((key) => ({ [key]: one.header.values(key) })) : [],
    ]);
  }
  return all;
};
const messages = (manager, name, last) => read((seq) => manager.streams.getMessage(name, { seq }), last);
const direct = (manager, name, last) => read((seq) => manager.direct.getMessage(name, { seq }), last);

await hub.manager.streams.add({ name: "JS_ORIGIN", subjects: ["js.>"], allow_direct: true });
for (let n = 1; n <= 6; n++) {
  const fields = headers();
  if (n % 3 === 0) fields.append("Key", "value");
  await hub.client.publish(`js.${"ab"[n % 2]}`, `m${n}`, { headers: fields });
}
await hub.manager.streams.deleteMessage("JS_ORIGIN", 2);
for (const name of ["mirror", "source"]) {
  await hub.manager.consumers.add("JS_ORIGIN", {
    durable_name: name, deliver_subject: `js_named.${name}`, ack_policy: AckPolicy.FlowControl,
    flow_control: true, idle_heartbeat: nanos(1000),
  });
}

const from = (source = {}) => ({ name: "JS_ORIGIN", domain: "hub", ...source });
const named = (name) => ({ consumer: { name, deliver_subject: `js_named.${name}` } });
const copies = [
  [{ name: "JS_WHOLE", mirror: from(), mirror_direct: true, allow_direct: true }, 6],
  [{ name: "JS_PART", mirror: {
    name: "JS_ORIGIN", filter_subject: "js.a", external: { api: "$JS.hub.API", deliver: "js_deliver" } } }, 6],
  [{ name: "JS_NAMED", mirror: from(named("mirror")) }, 6],
  [{ name: "JS_NAMED_SOURCE", sources: [from(named("source"))] }, 5],
  [{ name: "JS_MOVED", sources: [
    from({ subject_transforms: [{ src: "js.*", dest: "moved.{{wildcard(1)}}" }] })] }, 5],
  [{ name: "JS_LATER", subjects: ["js_later"], sources: [from({ opt_start_seq: 4 })] }, 3],
];
const whole = copies[0][0];
const missing = { name: "NO_SUCH", domain: "hub" };

const calls = [
  ...copies.map(([config]) => [`create ${config.name}`, () => silt.manager.streams.add(config)]),
  ["create JS_MISSING", () => silt.manager.streams.add({ name: "JS_MISSING", mirror: missing })],
  ["a mirror with subjects", () => silt.manager.streams.add({ name: "JS_BAD", mirror: missing, subjects: ["js_bad"] })],
  ...copies.flatMap(([{ name }, last]) => [
    [`copied ${name}`, () => reaches(silt.manager, name, last)],
    [`messages ${name}`, () => messages(silt.manager, name, last)],
  ]),
  ["direct", () => direct(silt.manager, "JS_WHOLE", 6)],
  ["direct of the origin", () => direct(silt.manager, "JS_ORIGIN", 6)],
  ["one more", () => hub.client.publish("js.a", "m7")],
  ...copies.map(([{ name }, last]) => [`followed ${name}`, () => reaches(silt.manager, name, last + 1)]),
  ["consumers of the origin", async () =>
    (await listed(hub.manager.consumers.list("JS_ORIGIN"))).map((one) => one.name).sort()],
  ["a mirror of nothing", () => until(silt.manager, "JS_MISSING", (info) => info.mirror.error)],
  ["another mirror", () =>
    silt.manager.streams.update("JS_WHOLE", { ...whole, mirror: from({ filter_subject: "js.b" }) })],
  ["promoted", () =>
    silt.manager.streams.update("JS_WHOLE", { mirror: undefined, mirror_direct: false, subjects: ["js_whole"] })],
  ["its own", () => silt.client.publish("js_whole", "of its own")],
  ["messages of its own", () => messages(silt.manager, "JS_WHOLE", 8)],
  ["create JS_BACK", () => silt.manager.streams.add({
    name: "JS_BACK", subjects: ["js_back"], retention: RetentionPolicy.Workqueue })],
  ...["b1", "b2", "b3"].map((text) => [`publish ${text}`, () => silt.client.publish("js_back", text)]),
  ["back at the hub", () => hub.manager.streams.add({
    name: "JS_BACK", sources: [{ name: "JS_BACK", domain: "silt" }] })],
  ["copied back", () => reaches(hub.manager, "JS_BACK", 3)],
  ["messages that came back", () => messages(hub.manager, "JS_BACK", 3)],
  ["taken from the work queue", () => until(silt.manager, "JS_BACK", (info) => info.state.messages === 0)],
  ...[...copies.map(([{ name }]) => name), "JS_MISSING", "JS_BACK"].map((name) =>
    [`delete ${name}`, () => silt.manager.streams.delete(name)]),
  ...["JS_ORIGIN", "JS_BACK"].map((name) => [`delete ${name} of the hub`, () => hub.manager.streams.delete(name)]),
];

await printOutcomes(calls);
await connection.close();
