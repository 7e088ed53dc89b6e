// What wifi.cc and lte.cc share: flows that never run dry, their TCP, and the arguments that set them.

#pragma once

#include <iostream>
#include <string>
#include <vector>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"

namespace flows {

using namespace ns3;

struct Options
{
    std::string protocol = "udp";
    std::string control = "NewReno";
    uint32_t payload = 1472;
    uint32_t window = 16 << 20;
    double delay_ms = 5;
    double seconds = 10;
    uint32_t min_rto_ms = 1000;
    uint32_t run = 1;

    void Add(CommandLine& line)
    {
        line.AddValue("protocol", "udp or tcp", protocol);
        line.AddValue("control", "NewReno, LinuxReno or Cubic", control);
        line.AddValue("payload", "bytes of a datagram or segment", payload);
        line.AddValue("window", "bytes of a receive buffer", window);
        line.AddValue("delay", "one way on the cable of the server in ms", delay_ms);
        line.AddValue("seconds", "of each flow", seconds);
        line.AddValue("min-rto", "least retransmission timeout in ms", min_rto_ms);
        line.AddValue("run", "number of the random stream", run);
    }

    bool Udp() const
    {
        return protocol == "udp";
    }

    // Sets the random stream and the defaults of TCP, as those of Linux, but for the least timeout. Linux bounds its
    // variance term by 200 ms, ns-3 can only bound the whole (RFC 6298, section 2.4), and with 200 ms there a queue
    // that grows brings timeouts.
    void Apply() const
    {
        RngSeedManager::SetRun(run);
        Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::Tcp" + control)));
        Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(payload));
        Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
        Config::SetDefault("ns3::TcpSocket::ConnTimeout", TimeValue(Seconds(1)));
        Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
        Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(40)));
        Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(16 << 20));
        Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(window));
        Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(min_rto_ms)));
    }

    // The delay of the cable, in whole microseconds.
    Time Delay() const
    {
        return MicroSeconds(static_cast<uint64_t>(delay_ms * 1000 + 0.5));
    }
};

struct Flow
{
    double start = 0;
    double end = 0;
    uint64_t bytes = 0;
};

inline void Received(Flow* flow, Ptr<const Packet> packet, const Address&)
{
    if (Simulator::Now().GetSeconds() <= flow->end)
    {
        flow->bytes += packet->GetSize();
    }
}

// A flow that never runs dry; datagrams come at `rate_bps`. It counts what arrives from its start on.
inline void Source(const Options& options, Ptr<Node> from, Ptr<Node> to, Ipv4Address address, uint16_t port,
                   double rate_bps, Flow* flow)
{
    const InetSocketAddress target(address, port);
    const std::string kind = options.Udp() ? "ns3::UdpSocketFactory" : "ns3::TcpSocketFactory";
    flow->end = flow->start + options.seconds;
    if (options.Udp())
    {
        UdpClientHelper client(target);
        client.SetAttribute("PacketSize", UintegerValue(options.payload));
        client.SetAttribute("Interval", TimeValue(Seconds(8 * options.payload / rate_bps)));
        client.SetAttribute("MaxPackets", UintegerValue(UINT32_MAX));
        client.Install(from).Start(Seconds(flow->start));
    }
    else
    {
        BulkSendHelper client(kind, target);
        client.SetAttribute("SendSize", UintegerValue(options.payload));
        client.Install(from).Start(Seconds(flow->start));
    }
    PacketSinkHelper sink(kind, InetSocketAddress(Ipv4Address::GetAny(), port));
    sink.Install(to).Get(0)->TraceConnectWithoutContext("Rx", MakeBoundCallback(&Received, flow));
}

// A list of one value for each flow, as JSON.
template <typename Of>
void List(const std::string& name, size_t flows, Of of)
{
    std::cout << "\"" << name << "\": [";
    for (size_t i = 0; i < flows; ++i)
    {
        std::cout << (i ? ", " : "") << of(i);
    }
    std::cout << "]";
}

} // namespace flows
