// benches/scenarios/fat.toml for htsim: peer SECONDS [bare]
//
// A server, a router and a client in a row: a queue and a pipe for each direction of the LAN and of the last hop. With
// `bare`, only what htsim's own examples have: the router's queue, and a pipe each way. One line of JSON tells what
// crossed the last hop towards the client.

#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "config.h"
#include "eventlist.h"
#include "network.h"
#include "pipe.h"
#include "queue.h"
#include "tcp.h"

namespace {

const int PAYLOAD_BYTES = 1024;
// htsim has no headers: a segment is as long as its payload, so the rate is that of payload.
const double HEADERS = 1064.0 / PAYLOAD_BYTES;

// Sends on what arrives, and counts it.
class Counter : public PacketSink
{
  public:
    uint64_t m_packets = 0;
    uint64_t m_bytes = 0;

    void receivePacket(Packet& packet) override
    {
        ++m_packets;
        m_bytes += packet.size();
        packet.sendOn();
    }

    const string& nodename() override
    {
        static const string name = "counter";
        return name;
    }
};

}  // namespace

int main(int argc, char* argv[])
{
    if (argc < 2)
    {
        std::cerr << "peer SECONDS [bare]\n";
        return 2;
    }
    const double seconds = std::stod(argv[1]);
    const bool bare = argc > 2 && std::string(argv[2]) == "bare";
    // htsim writes of each flow to standard output.
    std::ostream told(std::cout.rdbuf(nullptr));
    EventList& events = EventList::getTheEventList();
    events.setEndtime(timeFromSec(seconds));
    Packet::set_packet_size(PAYLOAD_BYTES);
    const linkspeed_bps rate = 45e6 / HEADERS;
    const mem_b lan_limit = 1000000 * mem_b(PAYLOAD_BYTES);
    const mem_b limit = 1058 * mem_b(PAYLOAD_BYTES);  // with the packet in service
    Queue down(rate, limit, events, nullptr);
    Queue up(rate, limit, events, nullptr);
    Queue server_lan(10e9 / HEADERS, lan_limit, events, nullptr);
    Queue client_lan(10e9 / HEADERS, lan_limit, events, nullptr);
    Pipe pipe_down(timeFromMs(100), events);
    Pipe pipe_up(timeFromMs(100), events);
    Counter data;
    TcpRtxTimerScanner timers(timeFromMs(10), events);
    std::vector<TcpSrc*> sources;
    for (int flow = 0; flow < 100; ++flow)
    {
        auto* source = new TcpSrc(nullptr, nullptr, events);
        auto* sink = new TcpSink();
        source->set_ssthresh(0x7fffffff);
        timers.registerTcp(*source);
        auto* out = new route_t();
        auto* back = new route_t();
        if (!bare)
        {
            out->push_back(&server_lan);
            back->push_back(&up);
        }
        out->push_back(&down);
        out->push_back(&pipe_down);
        out->push_back(&data);
        out->push_back(sink);
        back->push_back(&pipe_up);
        if (!bare)
        {
            back->push_back(&client_lan);
        }
        back->push_back(source);
        source->connect(*out, *back, *sink, timeFromMs(50.0 * flow));
        sources.push_back(source);
    }
    while (EventList::doNextEvent())
    {
    }
    told << "{\"data\": " << data.m_packets << ", \"drops\": " << down.num_drops()
         << ", \"bytes\": " << uint64_t(data.m_bytes * HEADERS) << ", \"completions\": [], \"end\": " << seconds << "}\n";
    return 0;
}
