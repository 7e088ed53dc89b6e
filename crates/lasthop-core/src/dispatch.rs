//! Macros that forward calls: to the variant of an enum, or to the observers inside an observer.

/// Defines an enum whose variants hold one value each, and a macro that calls the value of the current
/// variant.
///
/// `dispatched! { each: enum End { Tcp(Tcp), Udp(Udp) } }` also defines `each!(end, inner => inner.close())`:
/// a match, not an indirect call.
#[macro_export]
macro_rules! dispatched {
    ($each:ident: $($definition:tt)*) => {
        $crate::dispatched! { @define ($) $each $($definition)* }
    };
    (@define ($dollar:tt) $each:ident
        $(#[$meta:meta])* $vis:vis enum $name:ident {
            $($(#[doc = $doc:expr])* $(#[cfg($when:meta)])? $variant:ident($type:ty),)*
        }
    ) => {
        $(#[$meta])*
        $vis enum $name {
            $($(#[doc = $doc])* $(#[cfg($when)])? $variant($type),)*
        }

        /// Calls the value of the current variant.
        macro_rules! $each {
            ($dollar value:expr, $dollar inner:ident => $dollar call:expr) => {
                match $dollar value {
                    $($(#[cfg($when)])? $name::$variant($dollar inner) => $dollar call,)*
                }
            };
        }
    };
}

/// Defines methods that only forward the call: `$each!(self, inner => inner.method(arguments))`.
#[macro_export]
macro_rules! forward {
    ($each:ident:) => {};
    ($each:ident:
        $(#[$meta:meta])*
        $vis:vis fn $name:ident $(<$type:ident: $bound:path>)?
        (&mut $self:ident $(, $argument:ident: $of:ty)* $(,)?) $(-> $output:ty)?;
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        $vis fn $name $(<$type: $bound>)? (&mut $self $(, $argument: $of)*) $(-> $output)? {
            $each!($self, inner => inner.$name($($argument),*))
        }
        $crate::forward! { $each: $($rest)* }
    };
    ($each:ident:
        $(#[$meta:meta])*
        $vis:vis fn $name:ident(&$self:ident $(, $argument:ident: $of:ty)* $(,)?) $(-> $output:ty)?;
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        $vis fn $name(&$self $(, $argument: $of)*) $(-> $output)? {
            $each!($self, inner => inner.$name($($argument),*))
        }
        $crate::forward! { $each: $($rest)* }
    };
}

/// The methods by which an [`Observer`](crate::Observer) forwards every event with `$each!`, except for those
/// about packets (`packet`, which is hot, and `bytes`) and for `wants_qlog`, whose answers must be combined.
#[macro_export]
macro_rules! pass_events_on {
    ($each:ident) => {
        $crate::forward! { $each:
            fn announce(&mut self, info: &$crate::FlowInfo);
            fn written(&mut self, now: $crate::Instant, flow: $crate::FlowId, host: $crate::Host, bytes: u64);
            fn datagram(
                &mut self, now: $crate::Instant, flow: $crate::FlowId, host: $crate::Host, number: u64,
            );
            fn read(
                &mut self,
                now: $crate::Instant,
                flow: $crate::FlowId,
                host: $crate::Host,
                bytes: u64,
                ended: bool,
            );
            fn completed(&mut self, now: $crate::Instant, flow: $crate::FlowId);
            fn retired(&mut self, now: $crate::Instant, flow: $crate::FlowId);
            fn secret(&mut self, flow: $crate::FlowId, line: &str);
            fn qlog(&mut self, flow: $crate::FlowId, host: $crate::Host, records: &[u8]);
            fn air(&mut self, now: $crate::Instant, place: $crate::Place, event: $crate::AirEvent);
            fn transport(
                &mut self,
                now: $crate::Instant,
                flow: $crate::FlowId,
                host: $crate::Host,
                event: $crate::TransportEvent,
            );
            fn http(&mut self, now: $crate::Instant, flow: $crate::FlowId, event: $crate::HttpEvent);
            fn playback(&mut self, now: $crate::Instant, flow: $crate::FlowId, event: $crate::PlaybackEvent);
            fn exchange(&mut self, now: $crate::Instant, flow: $crate::FlowId, event: $crate::ExchangeEvent);
        }
    };
}
