// Reads a stream with npm's eventsource: node eventsource_client.mjs URL TOKEN COUNT
//
// Prints each id. The node ends the connection from time to time; the client comes back by itself.
import { EventSource } from "eventsource";

const [url, token, count] = process.argv.slice(2);
const source = new EventSource(url, {
  fetch: (input, init) =>
    fetch(input, { ...init, headers: { ...init.headers, Authorization: `Bearer ${token}` } }),
});
const ids = [];
source.onopen = () => console.error("open");
source.onmessage = (event) => {
  const record = JSON.parse(event.data);
  if (record.id !== event.lastEventId) throw new Error(`${record.id} is not ${event.lastEventId}`);
  ids.push(event.lastEventId);
  console.log(event.lastEventId);
  if (ids.length === Number(count)) source.close();
};
source.addEventListener("problem", (event) => {
  console.error(event.data);
  process.exit(2);
});
