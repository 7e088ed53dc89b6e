// Users of one LTE cell for ns-3: lte --scheduler=Pf --metres=100,2000 --protocol=udp, see --help
//
// A server, the core network, a base station, and users at fixed places, without fading or errors: the quality of
// each is constant. One line of JSON tells the payload that each user got in SECONDS from the flow's start, and what
// the base station granted: transport blocks, one a slot of 1 ms at most, their bytes, the largest, and their coding.

#include <map>
#include <set>
#include <sstream>

#include "flows.h"
#include "ns3/lte-module.h"
#include "ns3/mobility-module.h"
#include "ns3/point-to-point-epc-helper.h"
#include "ns3/point-to-point-module.h"

using namespace ns3;

namespace {

// When the users are attached and the first source may start; when the last has started.
constexpr double SOURCES_START = 1, SOURCES_STARTED = 1.1;

struct Options : flows::Options
{
    std::string scheduler = "Rr";
    std::string metres = "100";
    uint32_t blocks = 100;
    std::string rlc = "Um";
    double rate_mbps = 80;
    uint32_t buffer = 2000000;
};

// What the base station granted to a user.
struct Granted
{
    uint64_t blocks = 0;
    uint64_t bytes = 0;
    uint64_t most = 0;
    std::set<uint32_t> codings;
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

void Defaults()
{
    g_options.Apply();
    Config::SetDefault("ns3::LteSpectrumPhy::CtrlErrorModelEnabled", BooleanValue(false));
    Config::SetDefault("ns3::LteSpectrumPhy::DataErrorModelEnabled", BooleanValue(false));
    Config::SetDefault("ns3::LteRlcUm::MaxTxBufferSize", UintegerValue(g_options.buffer));
    Config::SetDefault("ns3::LteRlcAm::MaxTxBufferSize", UintegerValue(g_options.buffer));
    Config::SetDefault("ns3::LteEnbRrc::EpsBearerToRlcMapping", StringValue("Rlc" + g_options.rlc + "Always"));
    // Room for more users than 40.
    Config::SetDefault("ns3::LteEnbRrc::SrsPeriodicity", UintegerValue(80));
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

void Read(int argc, char* argv[])
{
    CommandLine line;
    g_options.Add(line);
    line.AddValue("scheduler", "Rr or Pf", g_options.scheduler);
    line.AddValue("metres", "of each user from the base station, such as 100,2000", g_options.metres);
    line.AddValue("blocks", "resource blocks of the down-link: 25, 50 or 100", g_options.blocks);
    line.AddValue("rlc", "Um or Am", g_options.rlc);
    line.AddValue("rate", "Mbit/s of datagrams to all users together", g_options.rate_mbps);
    line.AddValue("buffer", "bytes of each user's queue", g_options.buffer);
    line.Parse(argc, argv);
}

}  // namespace

int main(int argc, char* argv[])
{
    Read(argc, argv);
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
    cable.SetChannelAttribute("Delay", TimeValue(g_options.Delay()));
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
    const double each_bps = g_options.rate_mbps * 1e6 / users.GetN();
    std::vector<flows::Flow> sent(users.GetN());
    for (uint32_t i = 0; i < users.GetN(); ++i)
    {
        sent[i].start = start->GetValue(SOURCES_START, SOURCES_STARTED);
        flows::Source(g_options, server, users.Get(i), addresses.GetAddress(i), 5000 + i, each_bps, &sent[i]);
    }
    Simulator::Stop(Seconds(SOURCES_STARTED + g_options.seconds));
    Simulator::Run();

    const auto granted = [&](size_t user) -> const Granted& {
        return g_granted[DynamicCast<LteUeNetDevice>(phones.Get(user))->GetRrc()->GetRnti()];
    };
    std::cout << "{";
    flows::List("bytes", sent.size(), [&](size_t i) { return sent[i].bytes; });
    std::cout << ", ";
    flows::List("transport_blocks", sent.size(), [&](size_t i) { return granted(i).blocks; });
    std::cout << ", ";
    flows::List("transport_bytes", sent.size(), [&](size_t i) { return granted(i).bytes; });
    std::cout << ", ";
    flows::List("largest_block", sent.size(), [&](size_t i) { return granted(i).most; });
    std::cout << ", ";
    flows::List("coding", sent.size(), [&](size_t i) {
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
