//! User code that a scenario names, and how it is looked up before a run.

use lasthop_core::{Fault, Maker};
use lasthop_link::{
    DisciplineConfig, ErrorAlgorithm, ErrorSetup, PathConfig, QueueAlgorithm, QueueConfig, QueueSetup,
    UserDiscipline, UserErrors,
};
use lasthop_tcp::{CongestionAlgorithm, CongestionControl, ControlSetup, TcpConfig, UserControl};
use lasthop_traffic::{TrafficAlgorithm, TrafficSetup, UserTraffic};

use crate::types::Scenario;

/// Looks up code by name. A program that runs scenarios with its own code implements the methods for the kinds
/// of code that it provides.
pub trait Library {
    fn congestion_control(&self, name: &str) -> Found<ControlSetup, dyn CongestionAlgorithm> {
        Err(unknown(name, "congestion control"))
    }

    fn queue_discipline(&self, name: &str) -> Found<QueueSetup, dyn QueueAlgorithm> {
        Err(unknown(name, "queue discipline"))
    }

    fn error_model(&self, name: &str) -> Found<ErrorSetup, dyn ErrorAlgorithm> {
        Err(unknown(name, "error model"))
    }

    fn traffic(&self, name: &str) -> Found<TrafficSetup, dyn TrafficAlgorithm> {
        Err(unknown(name, "traffic"))
    }
}

/// The constructor of instances, or the reason why there is none.
pub type Found<S, T> = Result<Maker<S, T>, String>;

fn unknown(name: &str, what: &str) -> String {
    format!("there is no {what} {name:?} in the program that runs the scenario")
}

enum Code<'a> {
    Control(&'a mut UserControl),
    Queue(&'a mut UserDiscipline),
    Errors(&'a mut UserErrors),
    Traffic(&'a mut UserTraffic),
}

impl Scenario {
    /// Keys and names of all user code in it.
    pub(crate) fn user_code(&mut self) -> Vec<(String, String)> {
        let named = |(key, code): (String, Code<'_>)| {
            let name = match code {
                Code::Control(code) => code.name().to_owned(),
                Code::Queue(code) => code.name().to_owned(),
                Code::Errors(code) => code.name().to_owned(),
                Code::Traffic(code) => code.name().to_owned(),
            };
            (key, name)
        };
        self.codes().into_iter().map(named).collect()
    }

    /// Looks up all user code in it. The fault names the key of code that does not exist.
    pub fn bind(&mut self, library: &dyn Library) -> Result<(), Fault> {
        for (key, code) in self.codes() {
            let bound = match code {
                Code::Control(code) => library.congestion_control(code.name()).map(|maker| code.bind(maker)),
                Code::Queue(code) => library.queue_discipline(code.name()).map(|maker| code.bind(maker)),
                Code::Errors(code) => library.error_model(code.name()).map(|maker| code.bind(maker)),
                Code::Traffic(code) => library.traffic(code.name()).map(|maker| code.bind(maker)),
            };
            bound.map_err(|message| Fault { key, message })?;
        }
        Ok(())
    }

    fn codes(&mut self) -> Vec<(String, Code<'_>)> {
        let mut all = Vec::new();
        all.extend(of_tcp("tcp".into(), &mut self.tcp));
        for (name, path) in [("down", &mut self.down), ("up", &mut self.up)] {
            all.extend(path.iter_mut().flat_map(|path| of_path(name, path)));
        }
        for (name, hop) in &mut self.hop {
            all.extend(hop.down.iter_mut().flat_map(|path| of_path(&format!("hop.{name}.down"), path)));
            all.extend(hop.up.iter_mut().flat_map(|path| of_path(&format!("hop.{name}.up"), path)));
        }
        for (name, host) in &mut self.host {
            let tcp = host.tcp.as_deref_mut();
            all.extend(tcp.and_then(|tcp| of_tcp(format!("host.{name}.tcp"), tcp)));
        }
        for (index, flow) in self.flow.iter_mut().enumerate() {
            let tcp = flow.tcp.as_deref_mut();
            all.extend(tcp.and_then(|tcp| of_tcp(format!("flow[{index}].tcp"), tcp)));
            let tcp = flow.relay.as_mut().and_then(|relay| relay.tcp.as_deref_mut());
            all.extend(tcp.and_then(|tcp| of_tcp(format!("flow[{index}].relay.tcp"), tcp)));
            let code = flow.kind.own_code().map(Code::Traffic);
            all.extend(code.map(|code| (format!("flow[{index}].code"), code)));
        }
        all
    }
}

fn of_tcp(place: String, tcp: &mut TcpConfig) -> Option<(String, Code<'_>)> {
    let CongestionControl::User(code) = &mut tcp.congestion_control else { return None };
    Some((place + ".congestion_control", Code::Control(code)))
}

fn of_queue(place: String, queue: &mut QueueConfig) -> Option<(String, Code<'_>)> {
    let DisciplineConfig::User { discipline: code } = &mut queue.discipline else { return None };
    Some((place + ".discipline", Code::Queue(code)))
}

fn of_path<'a>(name: &str, path: &'a mut PathConfig) -> Vec<(String, Code<'a>)> {
    let classes = path.htb.iter_mut().flat_map(|htb| htb.class.iter_mut().enumerate());
    let of_class = classes.filter_map(|(index, class)| {
        of_queue(format!("{name}.htb.class[{index}].queue"), class.queue.as_mut()?)
    });
    let errors = path.link.error_model.as_mut();
    let errors = errors.map(|code| (format!("{name}.link.error_model"), Code::Errors(code)));
    of_queue(format!("{name}.queue"), &mut path.queue).into_iter().chain(of_class).chain(errors).collect()
}
