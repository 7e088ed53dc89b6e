//! The queue of a router, or of a class: one of the disciplines.

use lasthop_core::{Instant, Observer, PacketId, QueueDepth, RandomStream};

use crate::algorithm::QueueSetup;
use crate::config::{self, LinuxDiscipline, LinuxQueue, QueueConfig};
use crate::discipline::{Dequeued, Discipline, Outlet, Packets, Wait};

mod codel;
mod drop_tail;
mod dual_pi2;
mod fifo;
mod fq_codel;
mod fq_pie;
mod pie;
mod push_out;
mod red;
mod rounds;
mod sfq;
mod user;

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

/// A queue without classes.
#[derive(Debug)]
pub(crate) enum Queue {
    DropTail(DropTail),
    PushOut(Box<PushOut>),
    Red(Box<RedQueue<Red>>),
    LinuxRed(Box<RedQueue<linux::Red>>),
    CoDel(CoDel),
    FqCoDel(Box<FqCoDel>),
    Pie(Box<Pie>),
    FqPie(Box<FqPie>),
    DualPi2(Box<DualPi2>),
    Sfq(Box<Sfq>),
    User(Box<UserQueue>),
}

/// Calls a method of whichever discipline it is.
macro_rules! each {
    ($queue:expr, $discipline:ident => $call:expr) => {
        match $queue {
            Queue::DropTail($discipline) => $call,
            Queue::PushOut($discipline) => $call,
            Queue::Red($discipline) => $call,
            Queue::LinuxRed($discipline) => $call,
            Queue::CoDel($discipline) => $call,
            Queue::FqCoDel($discipline) => $call,
            Queue::Pie($discipline) => $call,
            Queue::FqPie($discipline) => $call,
            Queue::DualPi2($discipline) => $call,
            Queue::Sfq($discipline) => $call,
            Queue::User($discipline) => $call,
        }
    };
}

impl Queue {
    /// `stream` is for the discipline's draws.
    pub(crate) fn new(config: &QueueConfig, outlet: Outlet, stream: RandomStream) -> Self {
        let (limit, mtu) = (config.limit, outlet.mtu);
        let queue = DropTail::new(limit, outlet);
        match (&config.discipline, &config.red) {
            (config::Discipline::DropTail, None) => Self::DropTail(queue),
            (config::Discipline::DropTail, Some(red)) => {
                Self::Red(Box::new(RedQueue::new(Red::new(red, outlet, stream), queue)))
            }
            (config::Discipline::DropHead, _) => Self::PushOut(Box::new(PushOut::head(limit, mtu))),
            (config::Discipline::RandomDrop, _) => Self::PushOut(Box::new(PushOut::any(limit, mtu, stream))),
            (config::Discipline::Codel, _) => Self::CoDel(CoDel::new(config.codel(), mtu, queue)),
            (config::Discipline::FqCodel, _) => {
                Self::FqCoDel(Box::new(FqCoDel::new(config.fq_codel(mtu), limit, mtu, stream)))
            }
            (config::Discipline::Pie, _) => {
                Self::Pie(Box::new(Pie::new(config.pie(), outlet, stream, queue)))
            }
            (config::Discipline::FqPie, _) => {
                Self::FqPie(Box::new(FqPie::new(config.fq_pie(mtu), limit, outlet, stream)))
            }
            (config::Discipline::DualPi2, _) => {
                Self::DualPi2(Box::new(DualPi2::new(config.dual_pi2(), limit, outlet, stream)))
            }
            (config::Discipline::Sfq, _) => {
                Self::Sfq(Box::new(Sfq::new(config.sfq(mtu), limit, mtu, stream)))
            }
            (config::Discipline::User(code), _) => {
                let setup = QueueSetup { stream, limit, rate: outlet.rate, mtu };
                Self::User(Box::new(UserQueue::new(code.to_string(), code.make(setup))))
            }
        }
    }

    /// As Linux' own.
    pub(crate) fn linux(
        LinuxQueue { limit, discipline }: LinuxQueue,
        config: &QueueConfig,
        outlet: Outlet,
        stream: RandomStream,
    ) -> Self {
        match discipline {
            LinuxDiscipline::Red(red) => {
                let red = linux::Red::new(red, stream);
                Self::LinuxRed(Box::new(RedQueue::new(red, DropTail::new(limit, outlet))))
            }
            // The others compute as Linux does anyway.
            _ => Self::new(config, outlet, stream),
        }
    }

    /// The room that the link needs for the next packet, whichever that will be; none if nothing waits.
    pub(crate) fn room_needed(&self) -> Option<u32> {
        each!(self, discipline => discipline.room_needed())
    }
}

impl Discipline for Queue {
    fn enqueue<O: Observer>(
        &mut self,
        now: Instant,
        id: PacketId,
        packets: &mut Packets<'_, O>,
    ) -> Option<QueueDepth> {
        each!(self, discipline => discipline.enqueue(now, id, packets))
    }

    fn dequeue<O: Observer>(
        &mut self,
        now: Instant,
        room: u64,
        packets: &mut Packets<'_, O>,
    ) -> Result<Dequeued, Wait> {
        each!(self, discipline => discipline.dequeue(now, room, packets))
    }

    fn depth(&self) -> QueueDepth {
        each!(self, discipline => discipline.depth())
    }
}
