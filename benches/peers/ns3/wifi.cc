// Stations of one access point for ns-3: wifi --standard=a --stations=5 --protocol=udp --direction=up, see --help
//
// A server, an access point, and stations at its side, which hear one another: frames get lost by collisions
// alone. One line of JSON tells the payload that each flow brought in SECONDS from its start, the frames that the
// air carried, and what ns-3's MAC used. --air=N first prints the first N frames after the start.

#include "flows.h"
#include "ns3/mobility-module.h"
#include "ns3/neighbor-cache-helper.h"
#include "ns3/ofdm-phy.h"
#include "ns3/point-to-point-module.h"
#include "ns3/qos-txop.h"
#include "ns3/traffic-control-module.h"
#include "ns3/wifi-module.h"

using namespace ns3;

namespace {

// When the stations have associated, beacons have ended, and the first source may start; when the last has started.
constexpr double SOURCES_START = 2, SOURCES_STARTED = 2.1;

struct Options : flows::Options
{
    std::string standard = "a";
    std::string mode;
    uint32_t width = 20;
    uint32_t stations = 1;
    std::string direction = "down";
    uint32_t ampdu = 65535;
    bool rts = false;
    bool bar = true;
    std::string headers = "own";
    uint32_t answer_us = 20;
    bool pieces = false;
    uint32_t queue = 1000;
    uint32_t air = 0;
};

struct Count
{
    uint64_t data = 0;
    uint64_t mpdus = 0;
    uint64_t acks = 0;
    uint64_t other = 0;
    Time busy;
};

Options g_options;
Count g_count;
uint64_t g_dropped = 0;

bool Counts()
{
    return Simulator::Now() >= Seconds(SOURCES_START);
}

// A frame goes on the air.
void Sent(WifiConstPsduMap psdus, WifiTxVector vector, double)
{
    if (!Counts())
    {
        return;
    }
    const Ptr<const WifiPsdu> psdu = psdus.begin()->second;
    const Time duration = WifiPhy::CalculateTxDuration(psdu, vector, WIFI_PHY_BAND_5GHZ);
    const WifiMacHeader& header = psdu->GetHeader(0);
    if (header.IsData())
    {
        ++g_count.data;
        g_count.mpdus += psdu->GetNMpdus();
    }
    else
    {
        ++(header.IsAck() || header.IsBlockAck() ? g_count.acks : g_count.other);
    }
    g_count.busy += duration;
    if (g_options.air > 0)
    {
        --g_options.air;
        std::cout << (Simulator::Now() - Seconds(SOURCES_START)).GetNanoSeconds() << " ns " << header.GetTypeString() << " from "
                  << header.GetAddr2() << " to " << header.GetAddr1() << ", " << psdu->GetNMpdus() << " MPDU, "
                  << psdu->GetSize() << " B, " << vector.GetMode() << ", " << vector.GetPreambleType() << ", "
                  << duration.GetNanoSeconds() << " ns\n";
    }
}

void GivenUp(WifiMacDropReason, Ptr<const WifiMpdu>)
{
    g_dropped += Counts();
}

// The standard and the mode of data frames: by default the fastest with one stream of 20 MHz.
std::string Standard(WifiHelper& wifi)
{
    const std::string& name = g_options.standard;
    if (name == "a")
    {
        wifi.SetStandard(WIFI_STANDARD_80211a);
        return "OfdmRate54Mbps";
    }
    if (name == "n")
    {
        wifi.SetStandard(WIFI_STANDARD_80211n);
        return "HtMcs7";
    }
    if (name == "ac")
    {
        wifi.SetStandard(WIFI_STANDARD_80211ac);
        return "VhtMcs8";
    }
    if (name != "ax")
    {
        std::cerr << "--standard is a, n, ac or ax\n";
        std::exit(2);
    }
    wifi.SetStandard(WIFI_STANDARD_80211ax);
    wifi.ConfigHeOptions("GuardInterval", TimeValue(NanoSeconds(800)));
    return "HeMcs11";
}

// Of frames that collide, all nodes understand the header of the first, or none does and so all is lost.
class Headers : public ErrorRateModel
{
    double DoGetChunkSuccessRate(WifiMode, const WifiTxVector&, double snr, uint64_t, uint8_t, WifiPpduField field,
                                 uint16_t) const override
    {
        return (field != WIFI_PPDU_FIELD_DATA && g_options.headers == "first") || snr > 10 ? 1 : 0;
    }
};

// What hands a frame to the layer above, which ns-3 keeps to itself.
struct Above : WifiNetDevice
{
    static constexpr auto HANDS_OVER = &Above::ForwardUp;
};

void Later(Ptr<WifiNetDevice> device, Ptr<const Packet> packet, Mac48Address from, Mac48Address to)
{
    const Ptr<WifiPhy> phy = device->GetPhy();
    const Time rest = phy->IsStateRx() && !g_options.pieces ? phy->GetDelayUntilIdle() : Time();
    Simulator::Schedule(rest + MicroSeconds(g_options.answer_us), Above::HANDS_OVER, device, packet, from, to);
}

// The same strength everywhere. Of two frames that collide, only packets of the longer behind the end of the other can
// arrive, if the header was understood.
NetDeviceContainer Air(Ptr<Node> point, NodeContainer stations)
{
    YansWifiChannelHelper channel;
    channel.SetPropagationDelay("ns3::ConstantSpeedPropagationDelayModel");
    channel.AddPropagationLoss("ns3::FixedRssLossModel", "Rss", DoubleValue(-40));
    YansWifiPhyHelper phy;
    phy.SetChannel(channel.Create());
    phy.DisablePreambleDetectionModel();
    phy.Set("ChannelSettings", StringValue("{0, " + std::to_string(g_options.width) + ", BAND_5GHZ, 0}"));
    WifiHelper wifi;
    const std::string fastest = Standard(wifi);
    g_options.mode = g_options.mode.empty() ? fastest : g_options.mode;
    wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager", "DataMode", StringValue(g_options.mode),
                                 "ControlMode", StringValue("OfdmRate24Mbps"),
                                 "RtsCtsThreshold", UintegerValue(g_options.rts ? 0 : 4692480));
    WifiMacHelper mac;
    mac.SetType("ns3::ApWifiMac", "BE_MaxAmpduSize", UintegerValue(g_options.ampdu));
    NetDeviceContainer devices = wifi.Install(phy, mac, point);
    // No station misses the beacons that end once it has associated.
    mac.SetType("ns3::StaWifiMac", "BE_MaxAmpduSize", UintegerValue(g_options.ampdu), "MaxMissedBeacons",
                UintegerValue(1000000));
    devices.Add(wifi.Install(phy, mac, stations));
    for (uint32_t i = 0; i < devices.GetN(); ++i)
    {
        Ptr<WifiNetDevice> device = DynamicCast<WifiNetDevice>(devices.Get(i));
        // Access points demand 6, 12 and 24 Mbit/s, so an ACK takes 24.
        device->GetRemoteStationManager()->AddBasicMode(OfdmPhy::GetOfdmRate12Mbps());
        device->GetRemoteStationManager()->AddBasicMode(OfdmPhy::GetOfdmRate24Mbps());
        device->GetMac()->SetForwardUpCallback(MakeBoundCallback(&Later, device));
        if (g_options.headers != "own")
        {
            device->GetPhy()->SetErrorRateModel(CreateObject<Headers>());
        }
        device->GetPhy()->TraceConnectWithoutContext("PhyTxPsduBegin", MakeCallback(&Sent));
        device->GetMac()->TraceConnectWithoutContext("DroppedMpdu", MakeCallback(&GivenUp));
    }
    MobilityHelper mobility;
    mobility.SetMobilityModel("ns3::ConstantPositionMobilityModel");
    mobility.Install(point);
    mobility.Install(stations);
    return devices;
}

// One packet while the air is quiet, which makes a block ACK agreement. In busy air, some agreements left stations
// whose packets the access point acknowledged but did not pass on.
void Greet(Ptr<Node> from, Ptr<Node> to, Ipv4Address address, uint16_t port, double at)
{
    UdpClientHelper client{InetSocketAddress(address, port)};
    client.SetAttribute("MaxPackets", UintegerValue(1));
    client.Install(from).Start(Seconds(at));
    PacketSinkHelper("ns3::UdpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port)).Install(to);
}

void Mac(Ptr<WifiNetDevice> device, uint64_t rate_bps)
{
    const Ptr<WifiMac> mac = device->GetMac();
    const Ptr<WifiPhy> phy = device->GetPhy();
    const bool qos = mac->GetQosSupported();
    const Ptr<Txop> txop = qos ? Ptr<Txop>(mac->GetQosTxop(AC_BE)) : mac->GetTxop();
    std::cout << "\"mac\": {\"mode\": \"" << g_options.mode << "\", \"rate_bps\": " << rate_bps
              << ", \"slot_us\": " << phy->GetSlot().GetMicroSeconds() << ", \"sifs_us\": " << phy->GetSifs().GetMicroSeconds()
              << ", \"aifsn\": " << +txop->GetAifsn() << ", \"cw_min\": " << txop->GetMinCw() << ", \"cw_max\": "
              << txop->GetMaxCw() << ", \"txop_us\": " << txop->GetTxopLimit().GetMicroSeconds()
              << ", \"ack_timeout_us\": " << phy->GetAckTxTime().GetMicroSeconds() << ", \"qos\": " << (qos ? "true" : "false")
              << ", \"ampdu\": " << g_options.ampdu << ", \"queue\": " << g_options.queue << "}";
}

void Read(int argc, char* argv[])
{
    CommandLine line;
    g_options.Add(line);
    line.AddValue("standard", "a, n, ac or ax", g_options.standard);
    line.AddValue("mode", "of data frames, such as VhtMcs9; the fastest of one stream at 20 MHz", g_options.mode);
    line.AddValue("width", "of the channel in MHz", g_options.width);
    line.AddValue("stations", "number of stations, a flow each", g_options.stations);
    line.AddValue("direction", "down or up", g_options.direction);
    line.AddValue("ampdu", "most bytes of an A-MPDU; 0 for none", g_options.ampdu);
    line.AddValue("rts", "whether RTS and CTS precede data", g_options.rts);
    line.AddValue("bar", "whether a BlockAckReq follows a lost BlockAck, else the data again", g_options.bar);
    line.AddValue("queue", "packets in the queue of each device", g_options.queue);
    line.AddValue("headers", "of frames that collide, headers that are understood: first, none, or own for ns-3's chance",
                  g_options.headers);
    line.AddValue("answer", "us from the end of a frame until its receiver may answer it", g_options.answer_us);
    line.AddValue("pieces", "whether packets of a frame reach the layer above at their own end", g_options.pieces);
    line.AddValue("air", "frames to print", g_options.air);
    line.Parse(argc, argv);
    if (g_options.headers != "own" && g_options.headers != "first" && g_options.headers != "none")
    {
        std::cerr << "--headers is own, first or none\n";
        std::exit(2);
    }
}

}  // namespace

int main(int argc, char* argv[])
{
    Read(argc, argv);
    g_options.Apply();
    const QueueSize limit(PACKETS, g_options.queue);
    Config::SetDefault("ns3::WifiMacQueue::MaxSize", QueueSizeValue(limit));
    Config::SetDefault("ns3::QosTxop::UseExplicitBarAfterMissedBlockAck", BooleanValue(g_options.bar));
    if (!g_options.bar)
    {
        // Without it ns-3 counts the failures of aggregates, no success resets the count, and data get dropped.
        Config::SetDefault("ns3::WifiRemoteStationManager::MaxSsrc", UintegerValue(1000000));
    }
    // No packet is too old to be sent.
    Config::SetDefault("ns3::WifiMacQueue::MaxDelay", TimeValue(Seconds(1000)));
    NodeContainer wired, stations;
    wired.Create(2);
    stations.Create(g_options.stations);
    const Ptr<Node> server = wired.Get(0), point = wired.Get(1);
    const NetDeviceContainer air = Air(point, stations);
    PointToPointHelper cable;
    cable.SetDeviceAttribute("DataRate", StringValue("10Gbps"));
    cable.SetChannelAttribute("Delay", TimeValue(g_options.Delay()));
    cable.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("100000p"));
    const NetDeviceContainer ends = cable.Install(server, point);
    InternetStackHelper stack;
    stack.Install(wired);
    stack.Install(stations);
    Ipv4AddressHelper addresses("10.1.0.0", "255.255.255.0");
    const Ipv4InterfaceContainer at_air = addresses.Assign(air);
    addresses.SetBase("10.2.0.0", "255.255.255.0");
    const Ipv4Address at_server = addresses.Assign(ends).GetAddress(0);
    // The MAC's queue alone.
    TrafficControlHelper().Uninstall(air);
    TrafficControlHelper().Uninstall(ends);
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    const Ptr<WifiNetDevice> device = DynamicCast<WifiNetDevice>(air.Get(0));
    WifiTxVector vector;
    vector.SetMode(WifiMode(g_options.mode));
    vector.SetChannelWidth(g_options.width);
    vector.SetGuardInterval(800);
    const uint64_t rate_bps = vector.GetMode().GetDataRate(vector);
    // Beacons end once the stations have associated, which empties the caches of ARP. Broadcasts would get lost.
    Simulator::Schedule(Seconds(SOURCES_START - 0.5), [device]() {
        device->GetMac()->SetAttribute("BeaconGeneration", BooleanValue(false));
        NeighborCacheHelper().PopulateNeighborCache();
    });
    Ptr<UniformRandomVariable> start = CreateObject<UniformRandomVariable>();
    std::vector<flows::Flow> sent(g_options.stations);
    const bool up = g_options.direction == "up";
    for (uint32_t i = 0; i < g_options.stations; ++i)
    {
        const Ptr<Node> station = stations.Get(i);
        sent[i].start = start->GetValue(SOURCES_START, SOURCES_STARTED);
        const double quiet = SOURCES_START - 0.4 + 0.3 * i / g_options.stations;
        Greet(server, station, at_air.GetAddress(i + 1), 4000 + i, quiet);
        Greet(station, server, at_server, 4000 + i, quiet + 0.15 / g_options.stations);
        // No two streams keep step, or one of them would find the queue full each time.
        const double each_bps = 2 * rate_bps / g_options.stations * (100 + i) / 100;
        const Ipv4Address to = up ? at_server : at_air.GetAddress(i + 1);
        flows::Source(g_options, up ? station : server, up ? server : station, to, 5000 + i, each_bps, &sent[i]);
    }
    Simulator::Stop(Seconds(SOURCES_STARTED + g_options.seconds));
    Simulator::Run();
    std::cout << "{";
    flows::List("bytes", sent.size(), [&](size_t i) { return sent[i].bytes; });
    std::cout << ", \"data_frames\": " << g_count.data << ", \"mpdus\": " << g_count.mpdus << ", \"acks\": " << g_count.acks
              << ", \"other_frames\": " << g_count.other << ", \"dropped\": " << g_dropped
              << ", \"airtime_s\": " << g_count.busy.GetSeconds() << ", ";
    Mac(device, rate_bps);
    std::cout << "}\n";
    Simulator::Destroy();
    return 0;
}
