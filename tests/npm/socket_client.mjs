// Works on a queue with Node's own WebSocket: node socket_client.mjs URL TOKEN COUNT
//
// Prints the payload of each item that it has acknowledged.
const [url, token, count] = process.argv.slice(2);
const socket = new WebSocket(url, { headers: { Authorization: `Bearer ${token}` } });
const payloads = new Map();
let left = Number(count);
const say = (message) => socket.send(JSON.stringify(message));
socket.onopen = () => say({ id: "work", type: "subscribe", queue: "mail", credit: 2 });
socket.onerror = (event) => {
  console.error(event.message ?? event.error);
  process.exit(2);
};
socket.onmessage = ({ data }) => {
  const message = JSON.parse(data);
  if (message.type === "items") {
    for (const item of message.items) {
      payloads.set(item.id, item.payload);
      say({ id: item.id, type: "ack", subscription: "work", items: [item.id] });
    }
  } else if (message.type === "settled") {
    console.log(JSON.stringify(payloads.get(message.id)));
    if (--left === 0) socket.close();
  } else if (message.type !== "subscribed") {
    console.error(data);
    process.exit(2);
  }
};
