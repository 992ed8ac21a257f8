"""Networks of transformers and peft, tiny and random; skipped where these are not installed, slow because they are to import."""

import pytest
import torch

import perfed
from perfed.models import wrap
from perfed.runs.assemble import assemble
from perfed.runs.experiment import Experiment

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::FutureWarning")]  # of the two about each other


def vit():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.ViTConfig(**sizes, image_size=8, patch_size=4, num_channels=1, num_labels=10)
    return transformers.ViTForImageClassification(config)


def bert():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    return transformers.BertForSequenceClassification(transformers.BertConfig(vocab_size=30, **sizes, num_labels=4))


def test_a_classifier_of_pictures_is_a_body_and_a_head():
    net, x = vit().eval(), torch.randn(3, 1, 8, 8)
    with torch.no_grad():
        assert torch.equal(wrap(net, example=x).eval()(x), net(pixel_values=x).logits)


def test_a_classifier_of_texts_does_not_look_at_padding():
    net = wrap(bert(), example=torch.tensor([[3, 4, 5, 0]])).eval()
    with torch.no_grad():
        assert torch.allclose(net(torch.tensor([[3, 4, 0, 0]])), net(torch.tensor([[3, 4]])), atol=1e-6)


def test_perfeds_own_adapters_stand_beside_its_attention():
    asked = {"frozen": "body", "rank": 2, "adapters": "attention"}
    net = perfed.models.prepared(wrap(vit()), **asked)
    moving = {name for name, leaf in net.body.named_parameters() if leaf.requires_grad}
    assert moving and all(".attention." in name and name.endswith((".up", ".down")) for name in moving)


def test_what_peft_adapts_is_all_that_is_sent_besides_the_head():
    peft = pytest.importorskip("peft")
    linears = sorted(
        {name.rpartition(".")[2] for name, m in vit().named_modules() if type(m) is torch.nn.Linear and "attention" in name}
    )
    made = peft.get_peft_model(vit(), peft.LoraConfig(r=2, target_modules=linears[:2]))
    task = assemble(Experiment(model=made, clients=3), 0).site.task
    assert all("lora_" in name for name in task.body.start) and set(task.head.start) == {"head.weight", "head.bias"}
    assert any("patch_embeddings" in name for name in task.fixed)
    clients = perfed.federate("digits", clients=3, partition="iid")
    before = {name: leaf.clone() for name, leaf in task.fixed.items()}
    run = perfed.train(clients, "fedper", model=made, rounds=1, transport="serial", progress=False)
    model = run.model(0)
    assert all(
        torch.equal(dict(model.named_buffers())[f"frozen/{name}".replace(".", "_")], leaf) for name, leaf in before.items()
    )
