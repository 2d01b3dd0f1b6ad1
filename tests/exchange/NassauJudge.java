import com.paritytrading.nassau.moldudp64.*;
import com.paritytrading.nassau.soupbintcp.*;
import java.io.*;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.*;
import java.util.HexFormat;
import java.util.List;

/**
 * Speaks MoldUDP64 and SoupBinTCP by nassau, for tests/exchange/test_nassau.py. Prints a line for each event, with
 * messages in hexadecimal digits. Obeys the lines of its standard input.
 *
 * client LINE_PORT REREQUEST_PORT ORDERS_PORT USER PASSWORD: receives one line, and logs in.
 *     send HEX         an unsequenced message
 *     logout
 * server SESSION LINE_PORT: serves the line, rerequests and one connection. Its first line has the latter two ports.
 *     packet HEX...    a datagram of these messages
 *     lose HEX...      a datagram that is not sent; rerequests have its messages
 *     sequenced HEX    a message of the connection
 */
class NassauJudge {
    /** The speed of nassau's clock: a session without a heartbeat for 3 s, not 15 s, is silent. */
    static final int HASTE = 5;

    static final BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    static final Status status = new Status();
    static String session;

    /** Hears the events of all sessions. */
    static class Status implements MoldUDP64ClientStatusListener, SoupBinTCPClientStatusListener,
                                   SoupBinTCPServerStatusListener {
        public void state(MoldUDP64Client client, MoldUDP64ClientState state) { print("state " + state); }
        public void downstream(MoldUDP64Client client, long sequence, int count) { }
        public void request(MoldUDP64Client client, long from, int count) { print("request " + from + " " + count); }
        public void endOfSession(MoldUDP64Client client) { print("line-end"); }
        public void heartbeatTimeout(SoupBinTCPClient client) { print("silent"); }
        public void loginAccepted(SoupBinTCPClient client, SoupBinTCP.LoginAccepted answer) {
            print("login " + answer.getSession().trim() + " " + answer.getSequenceNumber());
        }
        public void loginRejected(SoupBinTCPClient client, SoupBinTCP.LoginRejected answer) { print("rejected"); }
        public void endOfSession(SoupBinTCPClient client) { print("end"); }
        public void heartbeatTimeout(SoupBinTCPServer server) { print("silent"); }
        public void loginRequest(SoupBinTCPServer server, SoupBinTCP.LoginRequest login) throws IOException {
            print("login " + login.getUsername().trim() + " " + login.getPassword().trim() + " "
                  + login.getRequestedSequenceNumber());
            var answer = new SoupBinTCP.LoginAccepted();
            answer.setSession(session);
            answer.setSequenceNumber(1);
            server.accept(answer);
        }
        public void logoutRequest(SoupBinTCPServer server) { print("logout"); }
    }

    static long now() { return HASTE * System.currentTimeMillis(); }
    static void print(String line) { System.out.println(line); }
    static ByteBuffer bytes(String hex) { return ByteBuffer.wrap(HexFormat.of().parseHex(hex)); }
    static InetSocketAddress at(String port) { return new InetSocketAddress("127.0.0.1", Integer.parseInt(port)); }

    static void print(String word, ByteBuffer message) {
        byte[] bytes = new byte[message.remaining()];
        message.get(bytes);
        print(word + " " + HexFormat.of().formatHex(bytes));
    }

    static <C extends SelectableChannel> C polled(C channel) throws IOException {
        channel.configureBlocking(false);
        return channel;
    }

    /** Returns the words of the next command, or null. */
    static List<String> command() throws IOException {
        return input.ready() ? List.of(input.readLine().split(" ")) : null;
    }

    /** Receives from a connection. Prints heartbeats, which are packets of three bytes that no listener hears. */
    static void receive(SoupBinTCPSession connection) throws IOException {
        if (!connection.getChannel().isOpen())
            return;
        int count = connection.receive();
        if (count == 3)
            print("heartbeat");
        if (count >= 0) {
            connection.keepAlive();
        } else {
            print("closed");
            connection.close();
        }
    }

    static void client(String[] args) throws Exception {
        var line = new MoldUDP64Client(polled(DatagramChannel.open().bind(at(args[1]))),
            polled(DatagramChannel.open().bind(at("0"))), at(args[2]), message -> print("line", message), status);
        var orders = new SoupBinTCPClient(NassauJudge::now, polled(SocketChannel.open(at(args[3]))), 1000,
            message -> print("message", message), status);
        var login = new SoupBinTCP.LoginRequest();
        login.setUsername(args[4]);
        login.setPassword(args[5]);
        login.setRequestedSession("");
        login.setRequestedSequenceNumber(1);
        orders.login(login);
        for (; ; Thread.sleep(1)) {
            while (line.receive() | line.receiveResponse()) { }
            receive(orders);
            for (List<String> words; (words = command()) != null; ) {
                if (words.get(0).equals("send"))
                    orders.send(bytes(words.get(1)));
                else
                    orders.logout();
            }
        }
    }

    static void server(String[] args) throws Exception {
        session = args[1];
        var line = new MoldUDP64Server(NassauJudge::now, DatagramChannel.open().connect(at(args[2])), session);
        var requests = new MoldUDP64RequestServer(polled(DatagramChannel.open().bind(at("0"))));
        var store = new MoldUDP64DefaultMessageStore();
        ServerSocketChannel port = ServerSocketChannel.open().bind(at("0"));
        print("ports " + requests.getChannel().socket().getLocalPort() + " " + port.socket().getLocalPort());
        var orders = new SoupBinTCPServer(NassauJudge::now, polled(port.accept()), 1000,
            message -> print("unsequenced", message), status);
        for (int next = 1; ; Thread.sleep(1)) {
            receive(orders);
            requests.serve(store);
            line.keepAlive();
            for (List<String> words; (words = command()) != null; ) {
                if (words.get(0).equals("sequenced")) {
                    orders.send(bytes(words.get(1)));
                    continue;
                }
                var packet = new MoldUDP64DownstreamPacket();
                for (String message : words.subList(1, words.size())) {
                    packet.put(bytes(message));
                    store.put(bytes(message));
                }
                if (words.get(0).equals("packet"))
                    line.send(packet);
                line.setNextSequenceNumber(next += packet.messageCount());
            }
        }
    }

    public static void main(String[] args) throws Exception {
        if (args[0].equals("client"))
            client(args);
        else
            server(args);
    }
}
