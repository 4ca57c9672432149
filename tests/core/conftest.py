"""The tests in ``fake/`` need the fake driver in place of libcuda before anything touches CUDA:
``test_fake_driver.py`` runs them in processes of their own."""
import os

collect_ignore = [] if os.environ.get("CYDNN_FAKE_DRIVER") else ["fake"]
