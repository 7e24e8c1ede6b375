"""setuptools, after the rules that the dashboard and the reporter share were copied under the reporter's own name.

The reporter runs in the application's environment, where a package ``app`` may be anybody's.
"""

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403 - everything that a build may ask for
from shared import bring


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """A wheel with the shared rules in it."""
    bring()
    return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory, config_settings=None):
    """A source distribution with the shared rules in it, since what it is built from elsewhere lacks ``app``."""
    bring()
    return build_meta.build_sdist(sdist_directory, config_settings)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """An editable wheel; copy again after a change of the rules: ``python reporter/shared.py``."""
    bring()
    return build_meta.build_editable(wheel_directory, config_settings, metadata_directory)
