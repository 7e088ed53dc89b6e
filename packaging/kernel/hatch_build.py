"""The tag of a wheel with a statically linked program: Linux on x86-64, with any libc and any Python."""

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Tag(BuildHookInterface):  # type: ignore[type-arg]
    """Names what the wheel runs on."""

    def initialize(self, version: str, build_data: dict[str, object]) -> None:  # noqa: ARG002
        """Change the facts from which the tag is made."""
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-manylinux2014_x86_64"
