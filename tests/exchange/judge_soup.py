"""Logs in at HOST PORT by nasdaq-protocols, Nasdaq's own client of SoupBinTCP: USER PASSWORD SESSION SEQUENCE COUNT.

Prints a line for each thing that comes, until COUNT sequenced messages have come: the login's session and number,
then `message HEX`. The client ends a session without a heartbeat for SILENCE_S. At last it waits for longer than
that, and prints `alive`. It sends `Q` first, which asks OUCH for a number."""
import asyncio
import sys

from nasdaq_protocols import soup

host, port, user, password, session, sequence, count = sys.argv[1:]
SILENCE_S = 4
messages = asyncio.Queue()


async def take(message):
    await messages.put(message)


async def main():
    client = await soup.connect_async((host, int(port)), user, password, session, int(sequence),
                                      on_msg_coro=take, client_heartbeat_interval=1,
                                      server_heartbeat_interval=SILENCE_S)
    print("login", client.session_id.session.strip(), client.sequence + 1)
    client.send_unseq_data(b"Q")
    for _ in range(int(count)):
        print("message", (await messages.get()).data.hex())
    await asyncio.sleep(2 * SILENCE_S + 1)
    print("closed" if client.is_closed() else "alive")
    client.logout()


try:
    asyncio.run(asyncio.wait_for(main(), 30))
except ConnectionRefusedError as error:
    print("refused", error)
