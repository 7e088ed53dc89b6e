// Users of one LTE cell for ns-3: lte --scheduler=Pf --metres=100,2000 --protocol=udp, see --help
//
// A server, the core network, a base station, and users at fixed places, without fading or errors: the quality of
// each is constant. One line of JSON tells the payload that each user got in SECONDS from the flow's start, and what
// the base station granted: transport blocks, one a slot of 1 ms at most, their bytes, the largest, and their coding.

#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/lte-module.h"
#include "ns3/mobility-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-epc-helper.h"
#include "ns3/point-to-point-module.h"

using namespace ns3;

namespace {

// When the users are attached and the first source may start; when the last has started.
constexpr double SOURCES_START = 1, SOURCES_STARTED = 1.1;

struct Options
{
    std::string scheduler = "Rr";
    std::string metres = "100";
    uint32_t blocks = 100;
    std::string protocol = "udp";
    std::string control = "NewReno";
    std::string rlc = "Um";
    uint32_t payload = 1472;
    double rate_mbps = 80;
    uint32_t buffer = 2000000;
    uint32_t window = 16 << 20;
    double delay_ms = 5;
    double seconds = 10;
    uint32_t run = 1;
};

// What the base station granted to a user.
struct Granted
{
    uint64_t blocks = 0;
    uint64_t bytes = 0;
    uint64_t most = 0;
    std::set<uint32_t> codings;
};

struct Flow
{
    double start = 0;
    uint64_t bytes = 0;
};

Options g_options;
std::map<uint16_t, Granted> g_granted;

void Scheduled(DlSchedulingCallbackInfo grant)
{
    if (Simulator::Now() >= Seconds(SOURCES_STARTED))
    {
        Granted& granted = g_granted[grant.rnti];
        ++granted.blocks;
        granted.bytes += grant.sizeTb1;
        granted.most = std::max<uint64_t>(granted.most, grant.sizeTb1);
        granted.codings.insert(grant.mcsTb1);
    }
}

void Received(Flow* flow, Ptr<const Packet> packet, const Address&)
{
    if (Simulator::Now().GetSeconds() <= flow->start + g_options.seconds)
    {
        flow->bytes += packet->GetSize();
    }
}

void Defaults()
{
    Config::SetDefault("ns3::LteSpectrumPhy::CtrlErrorModelEnabled", BooleanValue(false));
    Config::SetDefault("ns3::LteSpectrumPhy::DataErrorModelEnabled", BooleanValue(false));
    Config::SetDefault("ns3::LteRlcUm::MaxTxBufferSize", UintegerValue(g_options.buffer));
    Config::SetDefault("ns3::LteRlcAm::MaxTxBufferSize", UintegerValue(g_options.buffer));
    Config::SetDefault("ns3::LteEnbRrc::EpsBearerToRlcMapping", StringValue("Rlc" + g_options.rlc + "Always"));
    // Room for more users than 40.
    Config::SetDefault("ns3::LteEnbRrc::SrsPeriodicity", UintegerValue(80));
    const auto control = TypeId::LookupByName("ns3::Tcp" + g_options.control);
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(control));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(g_options.payload));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::ConnTimeout", TimeValue(Seconds(1)));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(40)));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(16 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(g_options.window));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
}

// The base station at the origin, and users at distances from it.
NodeContainer Users(Ptr<Node> station)
{
    Ptr<ListPositionAllocator> places = CreateObject<ListPositionAllocator>();
    places->Add(Vector(0, 0, 0));
    NodeContainer users;
    std::istringstream metres(g_options.metres);
    for (std::string distance; std::getline(metres, distance, ',');)
    {
        places->Add(Vector(std::stod(distance), 0, 0));
        users.Create(1);
    }
    MobilityHelper mobility;
    mobility.SetPositionAllocator(places);
    mobility.SetMobilityModel("ns3::ConstantPositionMobilityModel");
    mobility.Install(station);
    mobility.Install(users);
    return users;
}

// A flow from the server that never runs dry.
void Source(Ptr<Node> server, Ptr<Node> user, Ipv4Address address, uint16_t port, double rate_mbps, Flow* flow)
{
    const InetSocketAddress target(address, port);
    const bool udp = g_options.protocol == "udp";
    const std::string kind = udp ? "ns3::UdpSocketFactory" : "ns3::TcpSocketFactory";
    if (udp)
    {
        UdpClientHelper client(target);
        client.SetAttribute("PacketSize", UintegerValue(g_options.payload));
        client.SetAttribute("Interval", TimeValue(Seconds(8e-6 * g_options.payload / rate_mbps)));
        client.SetAttribute("MaxPackets", UintegerValue(UINT32_MAX));
        client.Install(server).Start(Seconds(flow->start));
    }
    else
    {
        BulkSendHelper client(kind, target);
        client.SetAttribute("SendSize", UintegerValue(g_options.payload));
        client.Install(server).Start(Seconds(flow->start));
    }
    PacketSinkHelper sink(kind, InetSocketAddress(Ipv4Address::GetAny(), port));
    sink.Install(user).Get(0)->TraceConnectWithoutContext("Rx", MakeBoundCallback(&Received, flow));
}

void Read(int argc, char* argv[])
{
    CommandLine line;
    line.AddValue("scheduler", "Rr or Pf", g_options.scheduler);
    line.AddValue("metres", "of each user from the base station, such as 100,2000", g_options.metres);
    line.AddValue("blocks", "resource blocks of the down-link: 25, 50 or 100", g_options.blocks);
    line.AddValue("protocol", "udp or tcp", g_options.protocol);
    line.AddValue("control", "NewReno, LinuxReno or Cubic", g_options.control);
    line.AddValue("rlc", "Um or Am", g_options.rlc);
    line.AddValue("payload", "bytes of a datagram or segment", g_options.payload);
    line.AddValue("rate", "Mbit/s of datagrams to all users together", g_options.rate_mbps);
    line.AddValue("buffer", "bytes of each user's queue", g_options.buffer);
    line.AddValue("window", "bytes of a receive buffer", g_options.window);
    line.AddValue("delay", "one way between server and core network in ms", g_options.delay_ms);
    line.AddValue("seconds", "of each flow", g_options.seconds);
    line.AddValue("run", "number of the random stream", g_options.run);
    line.Parse(argc, argv);
}

// One of a user's counts for each, as JSON.
template <typename Of>
void List(const std::string& name, size_t users, Of of)
{
    std::cout << "\"" << name << "\": [";
    for (size_t i = 0; i < users; ++i)
    {
        std::cout << (i ? ", " : "") << of(i);
    }
    std::cout << "]";
}

}  // namespace

int main(int argc, char* argv[])
{
    Read(argc, argv);
    RngSeedManager::SetRun(g_options.run);
    Defaults();
    Ptr<LteHelper> lte = CreateObject<LteHelper>();
    Ptr<PointToPointEpcHelper> core = CreateObject<PointToPointEpcHelper>();
    lte->SetEpcHelper(core);
    lte->SetSchedulerType("ns3::" + g_options.scheduler + "FfMacScheduler");
    lte->SetEnbDeviceAttribute("DlBandwidth", UintegerValue(g_options.blocks));
    lte->SetEnbDeviceAttribute("UlBandwidth", UintegerValue(g_options.blocks));

    NodeContainer ends;
    ends.Create(2);
    const Ptr<Node> server = ends.Get(0), station = ends.Get(1);
    const NodeContainer users = Users(station);
    InternetStackHelper stack;
    stack.Install(server);
    PointToPointHelper cable;
    cable.SetDeviceAttribute("DataRate", StringValue("10Gbps"));
    cable.SetDeviceAttribute("Mtu", UintegerValue(2000));
    cable.SetChannelAttribute("Delay", TimeValue(MicroSeconds(static_cast<uint64_t>(g_options.delay_ms * 1000 + 0.5))));
    const NetDeviceContainer link = cable.Install(core->GetPgwNode(), server);
    Ipv4AddressHelper("10.1.0.0", "255.255.255.0").Assign(link);
    Ipv4StaticRoutingHelper routing;
    routing.GetStaticRouting(server->GetObject<Ipv4>())->AddNetworkRouteTo("7.0.0.0", "255.0.0.0", 1);

    const NetDeviceContainer base = lte->InstallEnbDevice(station);
    const NetDeviceContainer phones = lte->InstallUeDevice(users);
    stack.Install(users);
    const Ipv4InterfaceContainer addresses = core->AssignUeIpv4Address(phones);
    for (uint32_t i = 0; i < users.GetN(); ++i)
    {
        routing.GetStaticRouting(users.Get(i)->GetObject<Ipv4>())->SetDefaultRoute(core->GetUeDefaultGatewayAddress(), 1);
        lte->Attach(phones.Get(i), base.Get(0));
    }
    const Ptr<LteEnbMac> mac = DynamicCast<LteEnbNetDevice>(base.Get(0))->GetMac();
    mac->TraceConnectWithoutContext("DlScheduling", MakeCallback(&Scheduled));

    Ptr<UniformRandomVariable> start = CreateObject<UniformRandomVariable>();
    std::vector<Flow> flows(users.GetN());
    for (uint32_t i = 0; i < users.GetN(); ++i)
    {
        flows[i].start = start->GetValue(SOURCES_START, SOURCES_STARTED);
        Source(server, users.Get(i), addresses.GetAddress(i), 5000 + i, g_options.rate_mbps / users.GetN(), &flows[i]);
    }
    Simulator::Stop(Seconds(SOURCES_STARTED + g_options.seconds));
    Simulator::Run();

    const auto granted = [&](size_t user) -> const Granted& {
        return g_granted[DynamicCast<LteUeNetDevice>(phones.Get(user))->GetRrc()->GetRnti()];
    };
    std::cout << "{";
    List("bytes", flows.size(), [&](size_t i) { return flows[i].bytes; });
    std::cout << ", ";
    List("transport_blocks", flows.size(), [&](size_t i) { return granted(i).blocks; });
    std::cout << ", ";
    List("transport_bytes", flows.size(), [&](size_t i) { return granted(i).bytes; });
    std::cout << ", ";
    List("largest_block", flows.size(), [&](size_t i) { return granted(i).most; });
    std::cout << ", ";
    List("coding", flows.size(), [&](size_t i) {
        std::ostringstream codings;
        for (const uint32_t coding : granted(i).codings)
        {
            codings << (codings.str().empty() ? "\"" : " ") << coding;
        }
        return codings.str() + "\"";
    });
    std::cout << "}\n";
    Simulator::Destroy();
    return 0;
}
