//! The queue of a router, or of a class: one of the disciplines.

use lasthop_core::{FlowId, Observer, PacketId, QueueDepth, RandomStream, dispatched};

use crate::algorithm::QueueSetup;
use crate::config::{DisciplineConfig, DropTailConfig, LinuxDiscipline, LinuxQueue, QueueConfig};
use crate::discipline::{Dequeued, Discipline, Outlet, Packets, Wait};

mod cake;
mod codel;
mod drop_tail;
mod dual_pi2;
pub(crate) mod fifo;
mod fq_codel;
mod fq_pie;
mod pie;
mod push_out;
mod red;
pub(crate) mod rounds;
mod sfq;
mod user;

use cake::Cake;
use codel::CoDel;
use drop_tail::DropTail;
use dual_pi2::DualPi2;
use fq_codel::FqCoDel;
use fq_pie::FqPie;
use pie::Pie;
use push_out::PushOut;
use red::{Red, RedQueue, linux};
use sfq::Sfq;
use user::UserQueue;

dispatched! {
    each:
    /// A queue without classes.
    #[derive(Debug)]
    pub(crate) enum Queue {
        DropTail(DropTail),
        PushOut(Box<PushOut>),
        Red(Box<RedQueue<Red>>),
        LinuxRed(Box<RedQueue<linux::FixedPointRed>>),
        CoDel(CoDel),
        FqCoDel(Box<FqCoDel>),
        Pie(Box<Pie>),
        FqPie(Box<FqPie>),
        DualPi2(Box<DualPi2>),
        Sfq(Box<Sfq>),
        Cake(Box<Cake>),
        User(Box<UserQueue>),
    }
}

impl Queue {
    /// `stream` is the random stream of the discipline.
    pub(crate) fn new(config: &QueueConfig, outlet: Outlet, stream: RandomStream) -> Self {
        let (limit, mtu) = (config.limit, outlet.mtu);
        let queue = DropTail::new(limit, outlet);
        match &config.discipline {
            DisciplineConfig::DropTail(DropTailConfig { red: None }) => Self::DropTail(queue),
            DisciplineConfig::DropTail(DropTailConfig { red: Some(red) }) => {
                Self::Red(Box::new(RedQueue::new(Red::new(red, outlet, stream), queue)))
            }
            DisciplineConfig::DropHead => Self::PushOut(Box::new(PushOut::head(limit, mtu))),
            DisciplineConfig::RandomDrop => Self::PushOut(Box::new(PushOut::any(limit, mtu, stream))),
            DisciplineConfig::Codel(codel) => Self::CoDel(CoDel::new(*codel, mtu, queue)),
            DisciplineConfig::FqCodel(config) => {
                Self::FqCoDel(Box::new(FqCoDel::new(*config, limit, mtu, stream)))
            }
            DisciplineConfig::Pie(pie) => Self::Pie(Box::new(Pie::new(*pie, outlet, stream, queue))),
            DisciplineConfig::FqPie(config) => {
                Self::FqPie(Box::new(FqPie::new(*config, limit, outlet, stream)))
            }
            DisciplineConfig::DualPi2(config) => {
                Self::DualPi2(Box::new(DualPi2::new(*config, limit, outlet, stream)))
            }
            DisciplineConfig::Sfq(flows) => Self::Sfq(Box::new(Sfq::new(*flows, limit, mtu, stream))),
            DisciplineConfig::Cake(cake) => Self::Cake(Box::new(Cake::new(*cake, limit, mtu, stream))),
            DisciplineConfig::User { discipline: code } => {
                let setup = QueueSetup { stream, limit, rate: outlet.rate, mtu };
                Self::User(Box::new(UserQueue::new(code.to_string(), code.make(setup))))
            }
        }
    }

    /// A queue of Linux' router.
    pub(crate) fn linux(
        LinuxQueue { limit, discipline }: LinuxQueue,
        config: &QueueConfig,
        outlet: Outlet,
        stream: RandomStream,
    ) -> Self {
        match discipline {
            LinuxDiscipline::Red(red) => {
                let red = linux::FixedPointRed::new(red, stream);
                Self::LinuxRed(Box::new(RedQueue::new(red, DropTail::new(limit, outlet))))
            }
            // The other disciplines always compute as in Linux.
            _ => Self::new(config, outlet, stream),
        }
    }

    /// Announces a flow between these hosts: the sender and the receiver of the direction down.
    pub(crate) fn announce(&mut self, flow: FlowId, hosts: [u32; 2]) {
        if let Self::Cake(cake) = self {
            cake.announce(flow, hosts);
        }
    }

    /// The room that the link needs for any next packet; `None` if no packet waits.
    pub(crate) fn room_needed(&self) -> Option<u32> {
        each!(self, discipline => discipline.room_needed())
    }
}

/// Separate functions for other disciplines, so that those of a drop-tail queue can be inlined.
impl Queue {
    #[inline(never)]
    fn enqueue_elsewhere<O: Observer>(
        &mut self,
        id: PacketId,
        packets: &mut Packets<'_, O>,
    ) -> Option<QueueDepth> {
        each!(self, discipline => discipline.enqueue(id, packets))
    }

    #[inline(never)]
    fn dequeue_elsewhere<O: Observer>(
        &mut self,
        room: u64,
        packets: &mut Packets<'_, O>,
    ) -> Result<Dequeued, Wait> {
        each!(self, discipline => discipline.dequeue(room, packets))
    }
}

impl Discipline for Queue {
    #[inline]
    fn enqueue<O: Observer>(&mut self, id: PacketId, packets: &mut Packets<'_, O>) -> Option<QueueDepth> {
        match self {
            Self::DropTail(queue) => queue.enqueue(id, packets),
            _ => self.enqueue_elsewhere(id, packets),
        }
    }

    #[inline]
    fn dequeue<O: Observer>(&mut self, room: u64, packets: &mut Packets<'_, O>) -> Result<Dequeued, Wait> {
        match self {
            Self::DropTail(queue) => queue.dequeue(room, packets),
            _ => self.dequeue_elsewhere(room, packets),
        }
    }

    fn depth(&self) -> QueueDepth {
        each!(self, discipline => discipline.depth())
    }
}
