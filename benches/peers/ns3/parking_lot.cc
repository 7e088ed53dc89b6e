// examples/parking-lot.toml for ns-3: parking_lot TCP RTTS TRIP SECONDS RUN, such as
// parking_lot LinuxReno 2 60 120 1. RUN is the number of the random stream of the starts.
//
// TRIP is the round trip of a short flow without queues in milliseconds, RTTS that of the long flow over it.
// Four routers in a row; a long flow from the first to the last, and a short one over each link between them.
// One line of JSON tells the bytes that each flow's receiver got in SECONDS from its start: long, short-1, ...

#include <algorithm>
#include <iostream>
#include <vector>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

namespace ns3 {

// ns-3's CUBIC with the Reno-friendly region of RFC 9438, section 4.3, which ns-3.37 lacks.
class TcpFriendlyCubic : public TcpCubic
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId id = TypeId("ns3::TcpFriendlyCubic")
                               .SetParent<TcpCubic>()
                               .SetGroupName("Internet")
                               .AddConstructor<TcpFriendlyCubic>();
        return id;
    }

    Ptr<TcpCongestionOps> Fork() override
    {
        return CopyObject<TcpFriendlyCubic>(this);
    }

    void IncreaseWindow(Ptr<TcpSocketState> tcb, uint32_t segmentsAcked) override
    {
        const double window = static_cast<double>(tcb->m_cWnd) / tcb->m_segmentSize;
        const bool avoidsCongestion = tcb->m_cWnd >= tcb->m_ssThresh;
        TcpCubic::IncreaseWindow(tcb, segmentsAcked);
        if (!avoidsCongestion)
        {
            return;
        }
        if (m_reno == 0)
        {
            m_reno = window;
        }
        m_reno += ALPHA * segmentsAcked / window;
        tcb->m_cWnd = std::max(tcb->m_cWnd.Get(), static_cast<uint32_t>(m_reno * tcb->m_segmentSize));
    }

    uint32_t GetSsThresh(Ptr<const TcpSocketState> tcb, uint32_t bytesInFlight) override
    {
        m_reno = 0;
        return TcpCubic::GetSsThresh(tcb, bytesInFlight);
    }

  private:
    static constexpr double BETA = 0.7;
    static constexpr double ALPHA = 3 * (1 - BETA) / (1 + BETA);
    // W_est in segments; 0 before congestion avoidance begins.
    double m_reno = 0;
};

NS_OBJECT_ENSURE_REGISTERED(TcpFriendlyCubic);

} // namespace ns3

namespace {

constexpr uint32_t LINKS = 3;

// The devices' own queues alone, without the queue disciplines that addresses bring.
Ipv4Address Link(Ptr<Node> one, Ptr<Node> other, const std::string& rate, double delay_ms, uint32_t limit)
{
    static Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue(rate));
    link.SetChannelAttribute("Delay", TimeValue(MicroSeconds(static_cast<uint64_t>(delay_ms * 1000 + 0.5))));
    link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue(std::to_string(limit) + "p"));
    const NetDeviceContainer ends = link.Install(one, other);
    const Ipv4Address address = addresses.Assign(ends).GetAddress(1);
    addresses.NewNetwork();
    TrafficControlHelper().Uninstall(ends);
    return address;
}

// A host of its own behind a router.
Ptr<Node> Host()
{
    Ptr<Node> host = CreateObject<Node>();
    InternetStackHelper().Install(host);
    return host;
}

// Linux 6 with SACK and timestamps: segments of 1448 bytes, an ACK for each second one.
void Tcp(const std::string& control)
{
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::Tcp" + control)));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(40)));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(4 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(6 << 20));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
}

struct Flow
{
    double start;
    uint64_t bytes = 0;
};

void Received(Flow* flow, double seconds, Ptr<const Packet> packet, const Address&)
{
    if (Simulator::Now().GetSeconds() <= flow->start + seconds)
    {
        flow->bytes += packet->GetSize();
    }
}

}  // namespace

int main(int argc, char* argv[])
{
    if (argc != 6)
    {
        std::cerr << "parking_lot NewReno|LinuxReno|Cubic|FriendlyCubic RTTS TRIP SECONDS RUN\n";
        return 2;
    }
    Tcp(argv[1]);
    // A hop's delay and the hosts' make a round trip of TRIP over one hop, and RTTS times that over three.
    const double trip_ms = std::stod(argv[3]);
    const double hop_ms = trip_ms / 2 * (std::stod(argv[2]) - 1) / (LINKS - 1);
    const double host_ms = trip_ms / 2 - hop_ms;
    const double seconds = std::stod(argv[4]);
    RngSeedManager::SetRun(std::stoul(argv[5]));

    NodeContainer routers;
    routers.Create(LINKS + 1);
    InternetStackHelper().Install(routers);
    for (uint32_t link = 0; link < LINKS; ++link)
    {
        Link(routers.Get(link), routers.Get(link + 1), "10Mbps", hop_ms, 50);
    }
    Ptr<UniformRandomVariable> start = CreateObject<UniformRandomVariable>();
    std::vector<Flow*> flows;
    const auto add = [&](uint32_t from, uint32_t to) {
        const uint16_t port = 5000;
        Ptr<Node> sender = Host();
        Ptr<Node> receiver = Host();
        Link(sender, routers.Get(from), "100Gbps", host_ms / 2, 1000000);
        const Ipv4Address address = Link(routers.Get(to), receiver, "100Gbps", host_ms / 2, 1000000);
        auto* flow = new Flow{start->GetValue(0, 1)};
        flows.push_back(flow);
        BulkSendHelper("ns3::TcpSocketFactory", InetSocketAddress(address, port))
            .Install(sender)
            .Start(Seconds(flow->start));
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
        sink.Install(receiver).Get(0)->TraceConnectWithoutContext("Rx", MakeBoundCallback(&Received, flow, seconds));
    };
    add(0, LINKS);
    for (uint32_t link = 0; link < LINKS; ++link)
    {
        add(link, link + 1);
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    Simulator::Stop(Seconds(seconds + 1));
    Simulator::Run();
    std::cout << "{\"bytes\": [";
    for (size_t i = 0; i < flows.size(); ++i)
    {
        std::cout << (i ? ", " : "") << flows[i]->bytes;
    }
    std::cout << "]}\n";
    Simulator::Destroy();
    return 0;
}
