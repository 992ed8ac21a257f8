"""What people, papers and other tools call our settings, methods, partitions, networks and data sets."""

_LETTERS = {  # a letter, and how it is typed
    "α": "alpha",
    "β": "beta",
    "γ": "gamma",
    "δ": "delta",
    "ε": "epsilon eps",
    "ζ": "zeta",
    "η": "eta",
    "θ": "theta",
    "κ": "kappa",
    "λ": "lambda lam lamda lambd lbda",
    "μ": "mu",
    "ν": "nu",
    "ρ": "rho",
    "σ": "sigma",
    "τ": "tau",
    "φ": "phi",
    "ψ": "psi",
    "ω": "omega",
}
_SETTINGS = {  # a setting, and what other tools call it
    "method": "algorithm algo strategy aggregator alg fl_method",
    "data": "dataset data_name dataset_name data_path data_dir datadir",
    "model": "arch architecture backbone model_name net network",
    "partition": "distribution partitioner noniid non_iid niid split_method partition_method",
    "partition.alpha": "heterogeneity dirichlet_alpha dir_alpha dir concentration",
    "clients": (
        "num_clients n_clients nclients num_users n_parties client_num client_number client_num_in_total total_clients "
        "num_supernodes num_partitions nodes num_nodes users parties silos client_count"
    ),
    "rounds": (
        "global_rounds num_rounds n_rounds comm_rounds comm_round communication_rounds num_server_rounds global_epochs "
        "global_epoch rounds_num total_round_num iterations server_rounds n_round"
    ),
    "budget.epochs": (
        "num_epochs local_epochs local_epoch local_ep epoch n_epochs local_steps local_update_steps ls max_epochs client_epochs"
    ),
    "budget.batch_size": "lbs batch bs local_bs batchsize local_batch_size train_batch_size",
    "budget.lr": "learning_rate learningrate local_learning_rate local_lr lr_local client_lr step_size stepsize rate",
    "budget.weight_decay": "wd l2 decay",
    "budget.optimizer": "optim optimiser opt solver",
    "sampling.ratio": (
        "join_ratio fraction_fit frac participation participation_rate participation_ratio sample_fraction "
        "client_fraction sampling_rate sample_rate sample_client_rate client_num_per_round clients_per_round "
        "join_clients min_fit_clients fraction_train"
    ),
    "sampling.ratio_min": "random_join_ratio",
    "unseen": "num_new_clients new_clients n_new_clients unseen_clients holdout_clients unseen_clients_rate",
    "join.epochs": "fine_tuning_epoch_new join_epochs",
    "join.every": "unseen_every join_every",
    "sampling.drop": "client_drop_rate dropout_rate dropout stragglers train_slow_rate",
    "partition.classes_per_client": "shards num_classes_per_client class_per_client shard_per_user",
    "seeds": "seed random_seed random_state times num_seeds trials",
    "device": "gpu cuda device_id use_gpu gpus no_cuda",
    "devices": "device_ids gpu_ids visible_devices cuda_visible_devices",
    "workers": "num_workers n_jobs jobs processes cores cpus num_cpus threads",
    "transport": "backend",
    "engine": "executor launcher scheduler",
    "engine.address": "ray_address",
    "validation": "val val_split valid val_ratio validation_split",
    "test": "test_size test_split test_ratio test_fraction train_ratio",
    "every": "eval_gap eval_every eval_interval test_every frequency_of_the_test test_interval eval_freq frequency",
    "out": ("output output_dir outdir save_dir save_folder_name log_dir logdir results result_dir folder save_path run_dir"),
    "name": "run_name exp_name experiment_name goal tag label",
    "snapshots": "save_gap save_every",
    "checkpoint": "checkpoint_every save_interval",
    "precision": "fp16 amp mixed_precision dtype half",
    "augment": "augmentation data_augmentation",
    "inputs.flip": "flip",
    "inputs.crop": "crop",
    "inputs.rotate": "rotate",
    "inputs.size": "resize image_size img_size imgsz",
    "inputs.mean": "normalize normalise",
    "text.length": "max_len max_length seq_len sequence_length",
    "text.size": "vocab_size vocabulary num_words",
    "norm": "batchnorm bn batch_norm",
    "report": "metric average",
    "model.features": "feature_dim",
    "model.hidden": "hidden_dim hidden_size",
    "model.weights": "pretrained",
    "data.fraction": "subset data_fraction",
    "data.label": "label_column target target_column",
    "data.client": "client_column",
    "data.text": "text_column",
    "method.rule": "agg aggregation weighting",
    "method.personal_epochs": "plocal_epochs",
    "method.head_epochs": "plocal_steps",
    "method.tune_epochs": "fine_tuning_epochs",
    "method.server_lr": "server_learning_rate",
    "method.personal_lr": "p_learning_rate",
}
_NAMES = {  # in small letters without dashes
    "method": {
        "local": "standalone separate individual",
        "fedavgft": "finetune fedavgfinetune",
        "perfedavg": "maml",
        "lgfedavg": "lg",
    },
    "partition": {
        "dirichlet": "noniid dir lda labelskew niid",
        "pathological": "shards shard pat",
        "iid": "uniform random",
        "natural": "group groups client user real",
        "timeline": "time chronological ordered temporal last",
    },
    "model": {
        "resnet18": "resnet",
        "mlp": "linear dnn perceptron",
        "cnn": "fedavgcnn lenet lenet5",
        "alexnet_bn": "alexnet",
        "fasttext": "lstm transformer bert",
    },
    "data": {
        "cifar10": "cifar",
        "fashion_mnist": "fmnist fashion",
        "digits_five": "digits5 digit5",
        "har": "ucihar",
        "amazon": "amazonreview",
        "tiny_imagenet": "tiny",
    },
}
TELLS = {  # words that no setting stands for
    "rounds_per_epoch": "a round is one exchange; budget.epochs are the passes over a client's samples in it",
    "num_classes": "the number of classes comes with the data",
    "classes": "the number of classes comes with the data; partition.classes_per_client is how many of them a client has",
    "verbose": "--json prints a machine-readable result; progress goes to standard error by itself",
    "resume": "`perfed resume FOLDER` finishes an interrupted run",
    "loss": "the loss is the cross-entropy; a method of one's own may have another",
    "scheduler": "the step size is the same in every round: budget.lr",
    "learning_rate_decay": "the step size is the same in every round: budget.lr",
    "learning_rate_decay_gamma": "the step size is the same in every round: budget.lr",
    "lr_decay": "the step size is the same in every round: budget.lr",
    "methods": "`perfed run` trains one method: method=NAME; `perfed compare methods=A,B` trains several",
}
LETTERS = {"T": "rounds", "N": "clients"}  # what papers call settings that have no letter in their meaning


def _turned(table: dict[str, str]) -> dict[str, str]:
    return {word: ours for ours, words in table.items() for word in words.split()}


GREEK = _turned(_LETTERS)
ELSEWHERE = _turned(_SETTINGS)
NAMES = {part: _turned(own) for part, own in _NAMES.items()}
