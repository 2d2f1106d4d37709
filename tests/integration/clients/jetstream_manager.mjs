// Runs nats.js's JetStream manager against the server given as argument and prints what each call gave, as JSON lines.
import { jetstream, jetstreamManager, DiscardPolicy } from "@nats-io/jetstream";
import { connect, headers } from "@nats-io/transport-node";
import { printOutcomes } from "./outcomes.mjs";

const connection = await connect({ servers: process.argv[2] });
const manager = await jetstreamManager(connection);
const client = jetstream(connection);

const listed = async (lister) => {
  const all = [];
  for await (const item of lister) all.push(item);
  return all;
};
const message = (found) => found && {
  subject: found.subject,
  seq: found.seq,
  data: new TextDecoder().decode(found.data),
  headers: found.header ? [...found.header.keys()].map((key) => [key, found.header.values(key)]) : [],
};
const config = { name: "JS", subjects: ["js.>"], allow_direct: true, max_msgs: 50 };
const withHeaders = headers();
withHeaders.append("A", "1");
withHeaders.append("A", "2");

const calls = [
  ["account", () => manager.getAccountInfo()],
  ["add", () => manager.streams.add(config)],
  ["add again", () => manager.streams.add(config)],
  ["add different", () => manager.streams.add({ ...config, max_msgs: 5 })],
  ["add overlapping", () => manager.streams.add({ name: "OTHER", subjects: ["js.x"] })],
  ["publish", () => client.publish("js.a", "one", { msgID: "1" })],
  ["publish twice", () => client.publish("js.a", "one", { msgID: "1" })],
  ["publish with headers", () => client.publish("js.b", "two", { headers: withHeaders })],
  ["publish expecting", () => client.publish("js.b", "three", { expect: { lastSequence: 2 } })],
  ["publish expecting wrong", () => client.publish("js.b", "three", { expect: { lastSequence: 2 } })],
  ["publish expecting the stream", () => client.publish("js.c", "four", { expect: { streamName: "JS" } })],
  ["publish nowhere", () => client.publish("nowhere", "lost")],
  ["info", () => manager.streams.info("JS")],
  ["info of subjects", () => manager.streams.info("JS", { subjects_filter: ">", deleted_details: true })],
  ["info of none", () => manager.streams.info("NOSUCH")],
  ["find", () => manager.streams.find("js.a")],
  ["list", () => listed(manager.streams.list())],
  ["names", () => listed(manager.streams.names())],
  ["get message", async () => message(await manager.streams.getMessage("JS", { seq: 2 }))],
  ["get last", async () => message(await manager.streams.getMessage("JS", { last_by_subj: "js.a" }))],
  ["get none", async () => message(await manager.streams.getMessage("JS", { seq: 99 }))],
  ["direct", async () => message(await manager.direct.getMessage("JS", { seq: 2 }))],
  ["direct last", async () => message(await manager.direct.getMessage("JS", { last_by_subj: "js.b" }))],
  ["direct next", async () => message(await manager.direct.getMessage("JS", { seq: 1, next_by_subj: "js.b" }))],
  ["direct none", async () => message(await manager.direct.getMessage("JS", { seq: 99 }))],
  ["direct batch", async () => (await listed(await manager.direct.getBatch("JS", { seq: 1, batch: 10 }))).map(message)],
  ["direct multi", async () =>
    (await listed(await manager.direct.getLastMessagesFor("JS", { multi_last: ["js.>"] }))).map(message)],
  ["update", () => manager.streams.update("JS", { ...config, description: "new", discard: DiscardPolicy.New })],
  ["delete message", () => manager.streams.deleteMessage("JS", 2)],
  ["delete message twice", () => manager.streams.deleteMessage("JS", 2)],
  ["purge", () => manager.streams.purge("JS", { filter: "js.b" })],
  ["purge keep", () => manager.streams.purge("JS", { keep: 1 })],
  ["info at the end", () => manager.streams.info("JS")],
  ["delete", () => manager.streams.delete("JS")],
  ["delete twice", () => manager.streams.delete("JS")],
];

await printOutcomes(calls);
await connection.close();
