// benches/scenarios/{fat,thin}.toml for ns-3: peer fat SECONDS, or peer thin REPLICATION
//
// A server, a router and a client in a row. One line of JSON tells what crossed the last hop towards the client.

#include <iostream>
#include <vector>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

namespace {

uint64_t g_bytes = 0;
uint64_t g_data = 0;
uint64_t g_drops = 0;
double g_end = 0;
std::vector<double> g_completions;

void Arrived(Ptr<const Packet> packet)
{
    ++g_data;
    g_bytes += packet->GetSize() - 2;  // without the header of PPP
}

void Dropped(Ptr<const Packet>)
{
    ++g_drops;
}

// A sink that notes when its download is complete.
void Received(uint64_t* left, double start, Ptr<const Packet> packet, const Address&)
{
    if (*left > 0 && packet->GetSize() >= *left)
    {
        g_end = Simulator::Now().GetSeconds();
        g_completions.push_back(g_end - start);
    }
    *left -= std::min<uint64_t>(*left, packet->GetSize());
}

Ptr<Node> g_server, g_client;
Ipv4Address g_address;

NetDeviceContainer Link(Ptr<Node> one, Ptr<Node> other, const std::string& rate, const std::string& delay, uint32_t limit)
{
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue(rate));
    link.SetChannelAttribute("Delay", StringValue(delay));
    link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue(std::to_string(limit) + "p"));
    return link.Install(one, other);
}

void Network(const std::string& lan_rate, const std::string& rate, const std::string& delay, uint32_t limit)
{
    NodeContainer nodes;
    nodes.Create(3);
    InternetStackHelper().Install(nodes);
    g_server = nodes.Get(0);
    g_client = nodes.Get(2);
    const NetDeviceContainer lan = Link(g_server, nodes.Get(1), lan_rate, "0ms", 1000000);
    const NetDeviceContainer hop = Link(nodes.Get(1), g_client, rate, delay, limit);
    Ipv4AddressHelper addresses("10.0.1.0", "255.255.255.0");
    addresses.Assign(lan);
    addresses.SetBase("10.0.2.0", "255.255.255.0");
    g_address = addresses.Assign(hop).GetAddress(1);
    // The devices' own queues alone, without the queue disciplines that addresses bring.
    TrafficControlHelper().Uninstall(lan);
    TrafficControlHelper().Uninstall(hop);
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    // A device whose queue is full stops the layer above, which then drops what comes.
    nodes.Get(1)->GetObject<TrafficControlLayer>()->TraceConnectWithoutContext("TcDrop", MakeCallback(&Dropped));
    hop.Get(1)->TraceConnectWithoutContext("PhyRxEnd", MakeCallback(&Arrived));
}

// A flow of TCP with SACK and an ACK for each segment; `bytes` 0 means as long as the run lasts.
void Download(uint16_t port, double start, uint64_t bytes)
{
    const InetSocketAddress to(g_address, port);
    BulkSendHelper source("ns3::TcpSocketFactory", to);
    source.SetAttribute("MaxBytes", UintegerValue(bytes));
    source.Install(g_server).Start(Seconds(start));
    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
    ApplicationContainer sinks = sink.Install(g_client);
    sinks.Start(Seconds(0));
    auto* left = new uint64_t(bytes);
    sinks.Get(0)->TraceConnectWithoutContext("Rx", MakeBoundCallback(&Received, left, start));
}

void Tcp(uint32_t payload)
{
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpLinuxReno::GetTypeId()));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(payload));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(16 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(16 << 20));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
}

double Fat(double seconds)
{
    Tcp(1024);
    Network("10Gbps", "45Mbps", "100ms", 1057);
    for (uint16_t flow = 0; flow < 100; ++flow)
    {
        Download(5000 + flow, flow * 0.05, 0);
    }
    return seconds;
}

double Thin(uint64_t replication)
{
    RngSeedManager::SetRun(replication);
    Ptr<UniformRandomVariable> start = CreateObject<UniformRandomVariable>();
    Tcp(536);
    Network("100Mbps", "64kbps", "300ms", 20);
    Download(5000, start->GetValue(0, 1), 250000);
    Download(5001, start->GetValue(0, 1), 250000);
    UdpClientHelper udp(g_address, 6000);
    udp.SetAttribute("PacketSize", UintegerValue(100));
    udp.SetAttribute("Interval", TimeValue(MilliSeconds(100)));
    udp.SetAttribute("MaxPackets", UintegerValue(600));
    udp.Install(g_server).Start(Seconds(start->GetValue(0, 1)));
    UdpServerHelper(6000).Install(g_client).Start(Seconds(0));
    return 300;
}

}  // namespace

int main(int argc, char* argv[])
{
    if (argc != 3)
    {
        std::cerr << "peer fat SECONDS, or peer thin REPLICATION\n";
        return 2;
    }
    const double end = std::string(argv[1]) == "fat" ? Fat(std::stod(argv[2])) : Thin(std::stoull(argv[2]));
    Simulator::Stop(Seconds(end));
    Simulator::Run();
    g_end = g_completions.empty() ? end : g_end;
    std::cout << "{\"data\": " << g_data << ", \"drops\": " << g_drops
              << ", \"bytes\": " << g_bytes << ", \"completions\": [";
    for (size_t i = 0; i < g_completions.size(); ++i)
    {
        std::cout << (i ? ", " : "") << g_completions[i];
    }
    std::cout << "], \"end\": " << g_end << "}\n";
    Simulator::Destroy();
    return 0;
}
