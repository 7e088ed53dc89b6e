/*
 * The host's random numbers, by which the guest kernel seeds its own generator: with LASTHOP_SEED in the environment
 * the same ones in every boot, by splitmix64 (Steele, Lea and Flood, 2014). Then whatever the guest draws - BBR's phase,
 * netem's losses, initial sequence numbers - follows from the seed.
 */
static ssize_t seeded_random(void *buffer, size_t length, unsigned int flags)
{
	static unsigned long long state;
	static int seeded;
	const char *seed = getenv("LASTHOP_SEED");
	unsigned char *bytes = buffer;
	size_t i;

	if (!seed)
		return getrandom(buffer, length, flags);
	if (!seeded) {
		state = strtoull(seed, NULL, 10);
		seeded = 1;
	}
	for (i = 0; i < length; i++) {
		unsigned long long mixed = state += 0x9e3779b97f4a7c15ULL;

		mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
		mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
		bytes[i] = mixed ^ (mixed >> 31);
	}
	return length;
}
