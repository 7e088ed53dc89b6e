//! Packet captures, frame by frame, and the IP packets in their frames.

mod error;
mod link;
mod reader;

pub use error::CaptureError;
pub use link::{Carried, carried};
pub use reader::{Frame, Lacks, read};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pcap(packets: &[Vec<u8>]) -> Vec<u8> {
        let mut file = Vec::new();
        for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
            file.extend(word.to_le_bytes());
        }
        for data in packets {
            for word in [1, 2, data.len() as u32, data.len() as u32] {
                file.extend(word.to_le_bytes());
            }
            file.extend(data);
        }
        file
    }

    fn packets() -> impl Strategy<Value = Vec<Vec<u8>>> {
        prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..5)
    }

    proptest! {
        #[test]
        fn whole_files_are_read_whole(packets in packets()) {
            let mut read_back = Vec::new();
            let cut = read(&pcap(&packets)[..], |frame| {
                read_back.push(frame.data.to_vec());
                Ok(())
            });
            prop_assert_eq!(cut.unwrap(), Lacks::default());
            prop_assert_eq!(read_back, packets);
        }

        /// A damaged, truncated or foreign file results in an error or is read as far as possible.
        #[test]
        fn no_file_makes_it_panic(
            packets in packets(),
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
            length in any::<prop::sample::Index>(),
            section in any::<bool>(),
        ) {
            let mut file = pcap(&packets);
            if section {
                file[..4].copy_from_slice(&[0x0a, 0x0d, 0x0d, 0x0a]);
            }
            for (place, byte) in damage {
                let place = place.index(file.len());
                file[place] = byte;
            }
            file.truncate(length.index(file.len() + 1));
            let mut seen = 0;
            let result = read(&file[..], |frame| {
                seen += frame.data.len();
                carried(&frame).map(|_| ())
            });
            prop_assert!(seen <= file.len());
            if let Err(error) = result {
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }
}
