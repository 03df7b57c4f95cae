import { join, tool, ToolError, toolkit } from "@toolhall/sdk";
import { z } from "zod";

const taken = new Set<string>();

const book = tool({
  name: "book",
  description: "Book a room.",
  effect: "writes",
  input: z.object({ room: z.string().describe("The name on its door.") }),
  output: z.object({ booked: z.string() }),
  run: async ({ room }, ctx) => {
    ctx.progress(0, 1, `looking at ${room}`);
    if (taken.has(room)) throw new ToolError(`${room} is taken; choose another room`);
    taken.add(room);
    return { booked: room };
  },
});

const rooms = toolkit({ name: "Rooms", version: "1.0.0", description: "Book rooms.", tools: [book] });

const hall = process.env.HALL_URL ?? "http://127.0.0.1:8000";
await join(rooms, { hall, server: "rooms" });
console.log(`joined ${hall}`);
