//! Transfers with a control connection each, as in netperf's tests. Before the transfer, the client sends its
//! request and the server answers that it is ready. Afterwards, when the client has closed the transfer's
//! connection, the server sends the results, and the client closes the control connection.

use lasthop_core::{Host, News};

use super::Transfers;

/// A transfer and its control connection, by the numbers of their flows.
#[derive(Clone, Copy, Debug)]
struct Test {
    control: u32,
    hosts: usize,
    /// The transfer, once the server is ready.
    transfer: Option<u32>,
    is_complete: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Tests {
    /// Size of each message on a control connection.
    message: u64,
    under_way: Vec<Test>,
}

impl Tests {
    pub fn new(message: u64) -> Self {
        Self { message, under_way: Vec::new() }
    }

    /// The client begins a test between these hosts. Returns the number of its control connection.
    pub fn begin(&mut self, transfers: &mut Transfers, hosts: usize) -> u32 {
        let control = transfers.open(hosts, true, self.message);
        self.under_way.push(Test { control, hosts, transfer: None, is_complete: false });
        control
    }

    /// Returns the control connection of the test that is over now.
    pub fn handle_news(
        &mut self,
        transfers: &mut Transfers,
        flow: u32,
        host: Host,
        news: News,
    ) -> Option<u32> {
        let is_own = |test: &Test| test.control == flow || test.transfer == Some(flow);
        let place = self.under_way.iter().position(is_own)?;
        let (message, test) = (self.message, &mut self.under_way[place]);
        let is_over = if test.control == flow {
            test.hear_control(transfers, message, host, news)
        } else {
            test.hear_transfer(transfers, message, host, news)
        };
        is_over.then(|| {
            let test = self.under_way.swap_remove(place);
            for flow in test.transfer.into_iter().chain([test.control]) {
                transfers.close(flow, Host::Client);
            }
            test.control
        })
    }
}

impl Test {
    /// News of the control connection; true if they end the test.
    fn hear_control(&mut self, transfers: &mut Transfers, message: u64, host: Host, news: News) -> bool {
        match host {
            Host::Server => {
                if news.received == Some(message) {
                    transfers.write(self.control, host, message, message);
                }
                false
            }
            Host::Client => {
                if news.received == Some(message) {
                    self.transfer = Some(transfers.ask(self.hosts));
                }
                // The results have come, or none will come.
                news.received == Some(2 * message) || news.ended
            }
        }
    }

    /// News of the transfer's connection; true if they end the test.
    fn hear_transfer(&mut self, transfers: &mut Transfers, message: u64, host: Host, news: News) -> bool {
        let Some(flow) = self.transfer else { return false };
        match host {
            Host::Server => {
                transfers.answer(flow, news);
                if news.ended {
                    transfers.write(self.control, host, message, message);
                }
                false
            }
            Host::Client => {
                if transfers.complete(flow, news) {
                    self.is_complete = true;
                    transfers.close(flow, host);
                }
                news.ended && !self.is_complete
            }
        }
    }
}
